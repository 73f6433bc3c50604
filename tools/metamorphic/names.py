"""Other names: of variables, of attributes, of what is imported."""

from __future__ import annotations

import libcst as cst

from tools.metamorphic.rewriting import (
    BUILTINS,
    Statement,
    dotted,
    has_star_parameters,
    is_import,
    names_bound,
    opening,
    parameters,
    rewriter,
    rewritten,
    statement,
    walk,
)

#: Attributes that torch and its frameworks give a meaning.
_MEANINGFUL = frozenset(
    ["training", "device", "dtype", "weight", "bias", "forward", "optimizer", "automatic_optimization"]
)


class _Rename(cst.CSTTransformer):
    """Renames variables, and keywords of calls of functions whose parameters are renamed."""

    def __init__(self, names: dict[str, str], functions: frozenset[str]) -> None:
        self.names = names
        self.functions = functions
        self.ours: list[bool] = []

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self.names.get(original_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        self._kept = node.attr

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def visit_Call(self, node: cst.Call) -> None:
        last = (dotted(node.func) or "").rpartition(".")[2]
        self.ours.append(last in self.functions)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        ours = self.ours.pop()
        args = []
        for old, new in zip(original_node.args, updated_node.args, strict=True):
            keep = old.keyword is not None and not ours
            args.append(new.with_changes(keyword=old.keyword) if keep else new)
        return updated_node.with_changes(args=args)

    def leave_ImportAlias(
        self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias
    ) -> cst.ImportAlias:
        return original_node

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        return original_node


def _imported(module: cst.Module) -> set[str]:
    found = set()
    for node in walk(module):
        if isinstance(node, cst.ImportAlias):
            if node.asname is not None and isinstance(node.asname.name, cst.Name):
                found.add(node.asname.name.value)
            else:
                found.add((dotted(node.name) or "").partition(".")[0])
    return found


@rewriter("other names of variables")
def other_variables(module: cst.Module) -> cst.Module | None:
    """Every variable and parameter gets a name that says nothing."""
    defined = {n.name.value for n in walk(module) if isinstance(n, (cst.FunctionDef, cst.ClassDef))}
    first = set()
    starred: set[str] = set()
    for node in walk(module):
        if isinstance(node, cst.ClassDef):
            for method in node.body.body:
                if isinstance(method, cst.FunctionDef) and parameters(method):
                    first.add(parameters(method)[0].name.value)
        if isinstance(node, cst.FunctionDef) and has_star_parameters(node):
            starred.update(p.name.value for p in parameters(node))
    kept = BUILTINS | _imported(module) | defined | first | starred | {"_", "__name__"}
    names = {
        name: f"v{number}"
        for number, name in enumerate(sorted(names_bound(module) - kept), 1)
        if not name.startswith("__")
    }
    return rewritten(module, _Rename(names, frozenset(defined | {"__init__"}))) if names else None


class _RenameAttributes(cst.CSTTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        new = self.names.get(original_node.attr.value)
        if new is None or not isinstance(original_node.value, cst.Name):
            return updated_node
        return updated_node.with_changes(attr=cst.Name(new))


@rewriter("other names of attributes")
def other_attributes(module: cst.Module) -> cst.Module | None:
    """Attributes that a class of the file sets get names that say nothing."""
    found = set()
    others = set()
    for node in walk(module):
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute):
            if isinstance(node.target.value, cst.Name) and node.target.value.value == "self":
                found.add(node.target.attr.value)
        if isinstance(node, cst.FunctionDef):
            others.add(node.name.value)
        if isinstance(node, cst.Attribute) and not (isinstance(node.value, cst.Name)):
            others.add(node.attr.value)
    names = {name: f"field_{i}" for i, name in enumerate(sorted(found - others - _MEANINGFUL), 1)}
    return rewritten(module, _RenameAttributes(names)) if names else None


# ---------------------------------------------------------------------- imports


class _Roots(cst.CSTTransformer):
    """Renames the roots of dotted names."""

    def __init__(self, roots: dict[str, str]) -> None:
        self.roots = roots

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        if isinstance(original_node.value, cst.Name) and original_node.value.value in self.roots:
            return updated_node.with_changes(
                value=cst.parse_expression(self.roots[original_node.value.value])
            )
        return updated_node


def _import_lines(module: cst.Module, change: dict[str, str | None]) -> list[cst.CSTNode]:
    """The statements of a module, with import lines replaced (or dropped: None)."""
    body: list[cst.CSTNode] = []
    for node in module.body:
        text = module.code_for_node(node).strip()
        if isinstance(node, cst.SimpleStatementLine) and text in change:
            new = change[text]
            if new is not None:
                body.append(statement(new).with_changes(leading_lines=node.leading_lines))
        else:
            body.append(node)
    return body


def _behind_torch(module: cst.Module, line: Statement) -> list[Statement]:
    """The statements of a module, with one more behind the first that imports from torch, or else its imports."""
    body = list(module.body)
    places = [
        i for i, node in enumerate(body, 1) if is_import(node) and "torch" in module.code_for_node(node)
    ]
    body.insert(places[0] if places else opening(module), line)
    return body


@rewriter("import torch as th")
def torch_as_th(module: cst.Module) -> cst.Module | None:
    if "import torch\n" not in module.code or "th" in names_bound(module):
        return None
    renamed = module.visit(_Roots({"torch": "th"}))
    return renamed.with_changes(body=_import_lines(renamed, {"import torch": "import torch as th"}))


class _Flatten(cst.CSTTransformer):
    """`torch.name` becomes `name`, for names that nothing else uses."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.used: set[str] = set()

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        name = original_node.attr.value
        if dotted(original_node.value) == "torch" and name not in self.taken:
            self.used.add(name)
            return updated_node.attr.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return updated_node


@rewriter("from torch import …")
def from_torch(module: cst.Module) -> cst.Module | None:
    if "import torch\n" not in module.code:
        return None
    taken = names_bound(module) | _imported(module) | BUILTINS | {"device", "cuda", "backends", "mps"}
    taken |= {n.name.value for n in walk(module) if isinstance(n, (cst.FunctionDef, cst.ClassDef))}
    flatten = _Flatten(taken)
    new = module.visit(flatten)
    if not flatten.used:
        return None
    line = statement(f"from torch import {', '.join(sorted(flatten.used))}")
    return new.with_changes(body=_behind_torch(new, line))


_SHORT = {
    "import torch.nn as nn": "torch.nn",
    "from torch import nn": "torch.nn",
    "import torch.nn.functional as F": "torch.nn.functional",
    "from torch.nn import functional as F": "torch.nn.functional",
}


@rewriter("torch.nn written out")
def written_out(module: cst.Module) -> cst.Module | None:
    """`nn.Linear` becomes `torch.nn.Linear`."""
    lines = {line: full for line, full in _SHORT.items() if f"{line}\n" in module.code}
    if not lines:
        return None
    renamed = module.visit(_Roots({line.rpartition(" ")[2]: full for line, full in lines.items()}))
    change: dict[str, str | None] = dict.fromkeys(lines, "import torch.nn")
    return renamed.with_changes(body=_import_lines(renamed, change))


class _Shorten(cst.CSTTransformer):
    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        full = dotted(original_node)
        if full in ("torch.nn", "nn"):
            return cst.Name("neural")
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return cst.Name("neural") if original_node.value == "nn" else updated_node


@rewriter("import torch.nn as another name")
def nn_as_other(module: cst.Module) -> cst.Module | None:
    code = module.code
    if (
        "torch.nn." not in code
        and "from torch import nn\n" not in code
        and "import torch.nn as nn\n" not in code
    ):
        return None
    new = module.visit(_Shorten())
    new = new.with_changes(
        body=_import_lines(new, {"from torch import nn": None, "import torch.nn as nn": None})
    )
    new = new.with_changes(body=_behind_torch(new, statement("import torch.nn as neural")))
    return new if new.code != code else None
