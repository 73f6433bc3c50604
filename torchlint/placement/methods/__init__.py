"""Method calls: moves, tensor methods, Modules, optimizers, scalers, containers."""
