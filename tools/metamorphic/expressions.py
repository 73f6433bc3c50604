"""The same expressions in other words: arguments, annotations, comprehensions, temporaries, branches."""

from __future__ import annotations

import libcst as cst

from tools.metamorphic.rewriting import (
    dotted,
    has_star_parameters,
    names_bound,
    names_read,
    parameters,
    rewriter,
    rewritten,
    statement,
    walk,
)

#: The names of positional parameters, by the last part of the callee's name (torch's documentation).
_POSITIONAL = {
    "autocast": ("device_type", "dtype"),
    "tensor": ("data",),
    "GradScaler": ("device",),
    "unscale_": ("optimizer",),
    "clip_grad_norm_": ("parameters", "max_norm"),
    "to": ("device",),
    "cross_entropy": ("input", "target"),
    "full": ("size", "fill_value"),
    "Linear": ("in_features", "out_features"),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "cat": ("tensors",),
    "stack": ("tensors",),
}


class _Keywords(cst.CSTTransformer):
    def __init__(self, known: dict[str, tuple[str, ...]]) -> None:
        self.known = known

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        callee = dotted(original_node.func)
        last = (
            original_node.func.attr.value if isinstance(original_node.func, cst.Attribute) else callee or ""
        )
        names = self.known.get(last)
        if names is None or any(a.star for a in original_node.args):
            return updated_node
        if last == "to" and not _is_device(original_node):
            return updated_node
        if last == "autocast" and "cuda" in (callee or "").split("."):
            return updated_node  # a vendor's own
        args: list[cst.Arg] = []
        position = 0
        for arg in updated_node.args:
            if arg.keyword is None:
                if position >= len(names):
                    return updated_node
                equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
                arg = arg.with_changes(keyword=cst.Name(names[position]), equal=equal)
                position += 1
            args.append(arg)
        return updated_node.with_changes(args=args)


def _is_device(node: cst.Call) -> bool:
    """Whether the only argument of a `to` is surely a device."""
    if len(node.args) != 1:
        return False
    value = node.args[0].value
    if isinstance(value, cst.SimpleString):
        return True
    return (dotted(value) or "").endswith("device")


@rewriter("keyword arguments")
def keyword_arguments(module: cst.Module) -> cst.Module | None:
    known = dict(_POSITIONAL)
    for node in module.body:
        if isinstance(node, cst.FunctionDef) and not has_star_parameters(node):
            known[node.name.value] = tuple(p.name.value for p in parameters(node))
    return rewritten(module, _Keywords(known))


class _Positional(cst.CSTTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        last = (dotted(original_node.func) or "").rpartition(".")[2]
        names = _POSITIONAL.get(last)
        if (
            names is None
            or any(a.star for a in original_node.args)
            or ".cuda." in (dotted(original_node.func) or "")
        ):
            return updated_node
        args: list[cst.Arg] = []
        for position, arg in enumerate(updated_node.args):
            expected = names[position] if position < len(names) else None
            if arg.keyword is not None and arg.keyword.value == expected:
                arg = arg.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
            elif arg.keyword is not None:
                args.extend(updated_node.args[position:])
                break
            args.append(arg)
        return updated_node.with_changes(args=args)


@rewriter("positional arguments")
def positional_arguments(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Positional())


# ---------------------------------------------------------------------- annotations

_TENSORS = frozenset(
    ["zeros", "ones", "rand", "randn", "arange", "stack", "cat", "full", "linspace", "empty", "tensor"]
)


class _Annotate(cst.CSTTransformer):
    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign | cst.AnnAssign:
        value = original_node.value
        if len(original_node.targets) != 1 or not isinstance(original_node.targets[0].target, cst.Name):
            return updated_node
        if isinstance(value, cst.Call) and dotted(value.func) in {f"torch.{name}" for name in _TENSORS}:
            annotation = cst.Annotation(cst.parse_expression("torch.Tensor"))
            return cst.AnnAssign(updated_node.targets[0].target, annotation, updated_node.value)
        return updated_node


@rewriter("annotations added")
def annotations_added(module: cst.Module) -> cst.Module | None:
    """`x = torch.zeros(3)` becomes `x: torch.Tensor = torch.zeros(3)`."""
    counts: dict[str, int] = {}
    for node in walk(module):
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
            counts[node.target.value] = counts.get(node.target.value, 0) + 1
    return rewritten(module, _Annotate())


class _Bare(cst.CSTTransformer):
    def leave_AnnAssign(
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.AnnAssign | cst.Assign:
        if updated_node.value is None:
            return updated_node
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return updated_node.with_changes(returns=None)


@rewriter("annotations of variables and results removed")
def annotations_removed(module: cst.Module) -> cst.Module | None:
    """Those of parameters stay: what they say stands nowhere else."""
    return rewritten(module, _Bare())


# ---------------------------------------------------------------------- comprehensions, temporaries


class _Blocks(cst.CSTTransformer):
    """Rewrites the lists of statements."""

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        raise NotImplementedError

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(body=self.statements(list(updated_node.body)))

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        return updated_node.with_changes(body=self.statements(list(updated_node.body)))


def _single(node: cst.CSTNode, kind: type[cst.CSTNode]) -> cst.CSTNode | None:
    """The only small statement of a line, if it is of a kind."""
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 and isinstance(node.body[0], kind):
        return node.body[0]
    return None


class _Unroll(_Blocks):
    """`xs = [f(x) for x in y]` becomes a loop that appends."""

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            small = _single(node, cst.Assign)
            assert small is None or isinstance(small, cst.Assign)
            value = small.value if small is not None else None
            target = small.targets[0].target if small is not None and len(small.targets) == 1 else None
            simple = (
                isinstance(value, cst.ListComp) and value.for_in.inner_for_in is None and not value.for_in.ifs
            )
            if not simple or not isinstance(target, cst.Name):
                result.append(node)
                continue
            assert isinstance(value, cst.ListComp)
            assert isinstance(node, cst.SimpleStatementLine)
            result.append(statement(f"{target.value} = []").with_changes(leading_lines=node.leading_lines))
            append = cst.Expr(
                cst.Call(cst.Attribute(cst.Name(target.value), cst.Name("append")), [cst.Arg(value.elt)])
            )
            line = cst.SimpleStatementLine([append])
            result.append(cst.For(value.for_in.target, value.for_in.iter, cst.IndentedBlock([line])))
        return result


@rewriter("a loop for a comprehension")
def loop_for_comprehension(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Unroll())


class _Roll(_Blocks):
    """`xs = []; for x in y: xs.append(f(x))` becomes a comprehension."""

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            rolled = self._rolled(result[-1], node) if result else None
            if rolled is None:
                result.append(node)
            else:
                result[-1] = rolled
        return result

    def _rolled(self, before: cst.BaseStatement, node: cst.BaseStatement) -> cst.BaseStatement | None:
        start = _single(before, cst.Assign)
        if not isinstance(start, cst.Assign) or not isinstance(start.value, cst.List) or start.value.elements:
            return None
        name = dotted(start.targets[0].target)
        if not isinstance(node, cst.For) or node.orelse is not None or name is None:
            return None
        if not isinstance(node.body, cst.IndentedBlock) or len(node.body.body) != 1:
            return None
        only = _single(node.body.body[0], cst.Expr)
        call = only.value if isinstance(only, cst.Expr) else None
        if not isinstance(call, cst.Call) or dotted(call.func) != f"{name}.append" or len(call.args) != 1:
            return None
        made = cst.ListComp(call.args[0].value, cst.CompFor(node.target, node.iter))
        assert isinstance(before, cst.SimpleStatementLine)
        return before.with_changes(body=[start.with_changes(value=made)])


@rewriter("a comprehension for a loop")
def comprehension_for_loop(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Roll())


class _Temporaries(_Blocks):
    """The inner call of a chain is bound to a name first."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.count = 0

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            small = (
                node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
            )
            value = small.value if isinstance(small, (cst.Expr, cst.Assign, cst.Return)) else None
            inner = (
                value.func.value
                if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
                else None
            )
            if not isinstance(inner, cst.Call) or dotted(inner.func) == "super" or not dotted(inner.func):
                result.append(node)
                continue
            assert isinstance(node, cst.SimpleStatementLine)
            assert isinstance(value, cst.Call)
            assert isinstance(value.func, cst.Attribute)
            assert isinstance(small, (cst.Expr, cst.Assign, cst.Return))
            self.count += 1
            name = f"part_{self.count}"
            first = cst.Assign([cst.AssignTarget(cst.Name(name))], inner)
            rest = value.with_changes(func=value.func.with_changes(value=cst.Name(name)))
            result.append(cst.SimpleStatementLine([first], leading_lines=node.leading_lines))
            result.append(node.with_changes(body=[small.with_changes(value=rest)], leading_lines=[]))
        return result


@rewriter("a temporary variable for a chained call")
def temporary_for_chain(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Temporaries(names_bound(module)))


class _ReturnNames(_Blocks):
    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            small = _single(node, cst.Return)
            if (
                isinstance(small, cst.Return)
                and small.value is not None
                and not isinstance(small.value, cst.Name)
            ):
                assert isinstance(node, cst.SimpleStatementLine)
                first = cst.Assign([cst.AssignTarget(cst.Name("outcome"))], small.value)
                result.append(cst.SimpleStatementLine([first], leading_lines=node.leading_lines))
                result.append(node.with_changes(body=[cst.Return(cst.Name("outcome"))], leading_lines=[]))
            else:
                result.append(node)
        return result


@rewriter("a name for what is returned")
def name_for_result(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _ReturnNames())


# ---------------------------------------------------------------------- branches


class _Swap(cst.CSTTransformer):
    """`if a: X else: Y` becomes `if not a: Y else: X`; without an else, X goes there."""

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        if isinstance(original_node.orelse, cst.If) or not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        other = updated_node.orelse.body if isinstance(updated_node.orelse, cst.Else) else None
        if other is None:
            other = cst.IndentedBlock([statement("pass")])
        test = _negation(updated_node.test)
        return updated_node.with_changes(test=test, body=other, orelse=cst.Else(updated_node.body))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.IfExp:
        test = _negation(updated_node.test)
        return updated_node.with_changes(test=test, body=updated_node.orelse, orelse=updated_node.body)


def _negation(test: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    atomic = isinstance(test, (cst.Name, cst.Attribute, cst.Call, cst.Comparison, cst.Subscript))
    inner = (
        test if atomic or test.lpar else test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )
    return cst.UnaryOperation(cst.Not(), inner)


@rewriter("branches swapped, the test negated")
def swapped(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Swap())


class _Statements(_Blocks):
    """`x = a if c else b` becomes an if statement."""

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            small = _single(node, cst.Assign)
            if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.IfExp):
                result.append(node)
                continue
            assert isinstance(node, cst.SimpleStatementLine)
            choice = small.value
            yes = cst.SimpleStatementLine([small.with_changes(value=choice.body)])
            no = cst.SimpleStatementLine([small.with_changes(value=choice.orelse)])
            result.append(
                cst.If(
                    test=choice.test,
                    body=cst.IndentedBlock([yes]),
                    orelse=cst.Else(cst.IndentedBlock([no])),
                    leading_lines=node.leading_lines,
                )
            )
        return result


@rewriter("an if statement for a conditional expression")
def statement_for_choice(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Statements())


class _Nest(cst.CSTTransformer):
    """`with a, b:` becomes two `with`, and `elif` an `if` under `else`."""

    def leave_With(self, original_node: cst.With, updated_node: cst.With) -> cst.With:
        if len(updated_node.items) < 2 or updated_node.asynchronous is not None:
            return updated_node
        items = [item.with_changes(comma=cst.MaybeSentinel.DEFAULT) for item in updated_node.items]
        inner = updated_node
        for item in reversed(items):
            body = updated_node.body if inner is updated_node else cst.IndentedBlock([inner])
            inner = cst.With([item], body)
        return inner.with_changes(leading_lines=updated_node.leading_lines)

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        if not isinstance(updated_node.orelse, cst.If):
            return updated_node
        return updated_node.with_changes(orelse=cst.Else(cst.IndentedBlock([updated_node.orelse])))


@rewriter("several contexts and elifs nested")
def nested(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Nest())


class _Pairs(_Blocks):
    """`a, b = f(), g()` becomes two assignments."""

    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for node in body:
            small = _single(node, cst.Assign)
            pairs = _independent(small) if isinstance(small, cst.Assign) else None
            if pairs is None:
                result.append(node)
                continue
            assert isinstance(node, cst.SimpleStatementLine)
            lines = [cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(t)], v)]) for t, v in pairs]
            result.extend([lines[0].with_changes(leading_lines=node.leading_lines), *lines[1:]])
        return result


def _independent(node: cst.Assign) -> list[tuple[cst.Name, cst.BaseExpression]] | None:
    """The single assignments of an unpacking, where none reads what an earlier one binds."""
    target = node.targets[0].target
    if len(node.targets) != 1 or not isinstance(target, cst.Tuple) or not isinstance(node.value, cst.Tuple):
        return None
    names = [e.value for e in target.elements]
    values = [e.value for e in node.value.elements]
    if len(names) != len(values):
        return None
    pairs: list[tuple[cst.Name, cst.BaseExpression]] = []
    for name, value in zip(names, values, strict=True):
        if not isinstance(name, cst.Name) or {n.value for n, _ in pairs} & set(names_read(value)):
            return None
        pairs.append((name, value))
    return pairs


@rewriter("an assignment for each of several targets")
def one_by_one(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Pairs())


# ---------------------------------------------------------------------- noise


class _Noise(_Blocks):
    def statements(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for position, node in enumerate(body):
            result.append(node)
            leaves = isinstance(node, cst.SimpleStatementLine) and isinstance(
                node.body[-1], (cst.Return, cst.Raise, cst.Continue, cst.Break)
            )
            if leaves or isinstance(node, (cst.FunctionDef, cst.ClassDef)) or position % 2:
                continue
            if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[-1], cst.ImportFrom):
                continue
            noise = statement("if False:\n    print('never')\n")
            comment = cst.EmptyLine(comment=cst.Comment("# a word that changes nothing"))
            result.append(noise.with_changes(leading_lines=[comment]))
        return result


@rewriter("dead code and comments")
def dead_code(module: cst.Module) -> cst.Module | None:
    return rewritten(module, _Noise())
