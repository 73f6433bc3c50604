"""The same code elsewhere: in a loop, a function, a method, a base class, a helper."""

from __future__ import annotations

import libcst as cst

from tools.metamorphic.rewriting import (
    BUILTINS,
    Statement,
    block,
    body_of,
    dotted,
    has_star_parameters,
    holds,
    is_docstring,
    names_bound,
    names_read,
    opening,
    parameters,
    rewriter,
    rewritten,
    statement,
    walk,
    with_body,
)

#: What is made anew in a loop is another program.
_MAKING = ("GradScaler", "optim.", "DataLoader", "autocast")


class _LoopBodies(cst.CSTTransformer):
    """The statements of each function's body stand in a loop of one round."""

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        body = body_of(updated_node)
        if (
            body is None
            or holds(original_node.body, cst.Yield, cst.FunctionDef)
            or original_node.name.value == "__init__"
        ):
            return updated_node
        code = cst.Module(body=[updated_node]).code
        if any(word in code for word in _MAKING):
            return updated_node
        head = 1 if is_docstring(body[0]) else 0
        if not body[head:]:
            return updated_node
        loop = cst.For(
            target=cst.Name("_once"), iter=cst.parse_expression("range(1)"), body=block(body[head:])
        )
        return with_body(updated_node, [*body[:head], loop])


@rewriter("in a loop of one round")
def in_a_loop(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _LoopBodies())


@rewriter("in a function")
def in_a_function(module: cst.Module) -> cst.Module | None:
    """What a module does at its top level is done by `main()`."""
    start = opening(module)
    definitions: list[Statement] = []
    rest: list[Statement] = []
    for node in module.body[start:]:
        (definitions if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else rest).append(node)
    if not rest or any(isinstance(n, cst.If) for n in rest):
        return None
    read = set()
    for node in definitions:
        read.update(names_read(node))
    if set().union(*(names_bound(node) for node in rest)) & read:
        return None  # functions use what is global
    main = cst.FunctionDef(name=cst.Name("main"), params=cst.Parameters(), body=block(list(rest)))
    return module.with_changes(body=[*module.body[:start], *definitions, main, statement("main()")])


class _Delegate(cst.CSTTransformer):
    """Each top-level function hands its arguments to another that does the work."""

    def __init__(self) -> None:
        self.depth = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.depth += 1

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.depth += 1

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.depth -= 1
        return updated_node

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.FlattenSentinel[cst.FunctionDef]:
        self.depth -= 1
        if self.depth or has_star_parameters(original_node) or original_node.asynchronous is not None:
            return updated_node
        if holds(original_node.body, cst.Yield):
            return updated_node
        name = f"{original_node.name.value}_inner"
        passed = ", ".join(p.name.value for p in parameters(original_node))
        inner = updated_node.with_changes(name=cst.Name(name))
        outer = (
            with_body(updated_node, [statement(f"return {name}({passed})")])
            if body_of(updated_node)
            else None
        )
        if outer is None:
            return updated_node
        return cst.FlattenSentinel([inner, outer.with_changes(decorators=[])])


@rewriter("in a function that is called by one of the old name")
def delegated(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Delegate())


class _Calls(cst.CSTTransformer):
    def __init__(self, names: set[str], base: str) -> None:
        self.names = names
        self.base = base

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node.value in self.names:
            return cst.parse_expression(f"{self.base}.{original_node.value}")
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return updated_node.with_changes(name=original_node.name)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)


@rewriter("in methods")
def in_methods(module: cst.Module) -> cst.Module | None:
    """Top-level functions become methods of a class, and call each other through `self`."""
    start = opening(module)
    functions = [
        n
        for n in module.body[start:]
        if isinstance(n, cst.FunctionDef) and not has_star_parameters(n) and body_of(n)
    ]
    names = {f.name.value for f in functions}
    if not functions or names & names_bound(module):
        return None
    used = set()
    for node in module.body[start:]:
        if node not in functions:
            used.update(names_read(node))
    if names & used:
        return None  # code at the top level, decorators or classes use them
    methods: list[cst.BaseStatement] = []
    for function in functions:
        method = function.visit(_Calls(names, "self"))
        assert isinstance(method, cst.FunctionDef)
        me = cst.Param(name=cst.Name("self"))
        params = method.params.with_changes(params=[me, *method.params.params])
        methods.append(method.with_changes(params=params, leading_lines=[cst.EmptyLine(indent=False)]))
    holder = cst.ClassDef(
        name=cst.Name("Holder"), body=block(methods), leading_lines=[cst.EmptyLine(), cst.EmptyLine()]
    )
    body: list[cst.CSTNode] = []
    for node in module.body:
        if node in functions:
            if node is functions[0]:
                body.append(holder)
        else:
            body.append(node)
    return module.with_changes(body=body)


class _LoopFunctions(cst.CSTTransformer):
    """The body of each innermost loop stands in a function within the function."""

    def __init__(self) -> None:
        self.functions: list[cst.FunctionDef] = []
        self.count = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self.functions.pop()
        return updated_node

    def leave_For(
        self, original_node: cst.For, updated_node: cst.For
    ) -> cst.For | cst.FlattenSentinel[cst.BaseStatement]:
        body = original_node.body
        leaves = (
            cst.Return,
            cst.Break,
            cst.Continue,
            cst.Yield,
            cst.For,
            cst.While,
            cst.FunctionDef,
            cst.NamedExpr,
        )
        if not self.functions or holds(body, *leaves) or original_node.orelse is not None:
            return updated_node
        target = cst.For(original_node.target, cst.Name("x"), cst.IndentedBlock([statement("pass")]))
        targets = sorted(names_bound(target))
        function = self.functions[-1]
        outside = _names_outside(function, original_node)
        shared = sorted((names_bound(body) - set(targets)) & outside)
        comprehended = {dotted(n.target) for n in walk(function) if isinstance(n, cst.CompFor)}
        if set(targets) & (outside | names_bound(body)) or set(shared) & comprehended:
            return updated_node
        rest = function.visit(_WithoutLoops())
        if not isinstance(rest, cst.FunctionDef) or not set(shared) <= names_bound(rest):
            return updated_node  # a name that only loops bind is read behind them
        self.count += 1
        name = f"one_{self.count}"
        lines = [statement(f"nonlocal {', '.join(shared)}")] if shared else []
        assert isinstance(updated_node.body, cst.IndentedBlock)
        params = cst.Parameters([cst.Param(cst.Name(t)) for t in targets])
        inner = cst.FunctionDef(
            name=cst.Name(name), params=params, body=block([*lines, *updated_node.body.body])
        )
        call = updated_node.with_changes(body=block([statement(f"{name}({', '.join(targets)})")]))
        return cst.FlattenSentinel([inner, call])


class _WithoutLoops(cst.CSTTransformer):
    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.BaseStatement:
        return statement("pass")


def _names_outside(function: cst.FunctionDef, loop: cst.For) -> set[str]:
    """The names that a function binds or reads outside of a loop's body and target."""

    class Outside(cst.CSTVisitor):
        def __init__(self) -> None:
            self.found: set[str] = set()

        def visit_For(self, node: cst.For) -> bool:
            if node is loop:
                node.iter.visit(self)
                return False
            return True

        def visit_Name(self, node: cst.Name) -> None:
            self.found.add(node.value)

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

    visitor = Outside()
    function.visit(visitor)
    return visitor.found


@rewriter("the body of a loop in a function")
def loop_body_in_a_function(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _LoopFunctions())


class _Split(cst.CSTTransformer):
    """A class keeps `__init__`, and inherits the other methods."""

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef | cst.FlattenSentinel[cst.ClassDef]:
        if not isinstance(updated_node.body, cst.IndentedBlock) or original_node.decorators:
            return updated_node
        stays: list[cst.BaseStatement] = []
        goes: list[cst.BaseStatement] = []
        for node in updated_node.body.body:
            own = (
                isinstance(node, cst.FunctionDef)
                and node.name.value != "__init__"
                and not holds(node, cst.Yield)
            )
            (goes if own else stays).append(node)
        if not goes or any("super" in names_read(n) for n in goes):
            return updated_node
        base = f"{original_node.name.value}Base"
        first = updated_node.with_changes(name=cst.Name(base), body=block(goes))
        rest = stays or [statement("pass")]
        second = updated_node.with_changes(bases=[cst.Arg(cst.Name(base))], keywords=[], body=block(rest))
        return cst.FlattenSentinel([first, second])


@rewriter("in a base class")
def in_a_base_class(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Split())


_FACTORIES = {
    *("zeros", "ones", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "linspace"),
    *("tensor", "eye", "hann_window", "stack", "cat"),
}


@rewriter("made by a helper that returns it")
def made_by_a_helper(module: cst.Module) -> cst.Module | None:
    """`x = torch.zeros(n)` becomes `x = make_1(n)`, and `make_1` returns the zeros."""

    class Helpers(cst.CSTTransformer):
        def __init__(self) -> None:
            self.made: list[cst.BaseStatement] = []

        def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
            value = original_node.value
            if (
                not isinstance(value, cst.Call)
                or (dotted(value.func) or "").rpartition(".")[2] not in _FACTORIES
            ):
                return updated_node
            if not (dotted(value.func) or "").startswith("torch."):
                return updated_node
            names = [n for n in names_read(value) if n not in BUILTINS and n != "torch"]
            if any(isinstance(n, (cst.Attribute, cst.ListComp)) and n is not value.func for n in walk(value)):
                return updated_node
            name = f"make_{len(self.made) + 1}"
            code = cst.Module(body=[]).code_for_node(value)
            self.made.append(statement(f"def {name}({', '.join(names)}):\n    return {code}\n"))
            return updated_node.with_changes(value=cst.parse_expression(f"{name}({', '.join(names)})"))

    helpers = Helpers()
    new = module.visit(helpers)
    if not helpers.made:
        return None
    start = opening(new)
    return new.with_changes(body=[*new.body[:start], *helpers.made, *new.body[start:]])
