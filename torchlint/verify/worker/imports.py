"""Imports of modules that a request carries: from its text, ahead of whatever is installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping
from types import CodeType, ModuleType
from typing import Any

#: Compiles a module of the request; raises what should stop the import.
Compiler = Callable[[Mapping[str, Any]], CodeType]


class RequestFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and runs the modules of one request. `namespace`: names that each of them is given."""

    def __init__(self, modules: list[dict[str, Any]], compiler: Compiler, namespace: dict[str, Any]) -> None:
        self._modules = {m["name"]: m for m in modules}
        self._compiler = compiler
        self._namespace = namespace

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        module = self._modules.get(name)
        if module is None:
            if not any(other.startswith(f"{name}.") for other in self._modules):
                return None
            module = {"package": True}
        return importlib.machinery.ModuleSpec(
            name,
            self,
            origin=module.get("path"),
            is_package=bool(module.get("package", self._has_parts(name))),
        )

    def _has_parts(self, name: str) -> bool:
        return any(other.startswith(f"{name}.") for other in self._modules)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        described = self._modules.get(module.__name__)
        if described is None:
            return
        module.__file__ = described.get("path") or described["name"]
        vars(module).update(self._namespace)
        exec(self._compiler(described), vars(module))

    def __enter__(self) -> RequestFinder:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.meta_path.remove(self)
        if not self._modules:
            return
        for name in list(sys.modules):
            if name in self._modules or self._has_parts(name):
                del sys.modules[name]
