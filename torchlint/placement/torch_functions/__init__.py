"""Calls of torch itself: factories, Modules, contexts, and operations by the facts of `torch_api`."""
