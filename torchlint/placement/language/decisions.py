"""Whether code has to know at once what a test of a tensor says, or could leave the choice to the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.placement.events import Sync
from torchlint.placement.hazards.syncs import decide
from torchlint.placement.knowledge import torch_api
from torchlint.placement.language.guards import asks_for_wrong
from torchlint.placement.syntax import descendants, dotted
from torchlint.placement.values import Kind

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Env, Interpreter

#: What tells a person of something, which may come a little later.
_TELLS = frozenset(
    "print log info debug warn warning warn_once error exception critical write set_postfix".split()
)
_LEAVES = frozenset(["exit", "_exit", "abort"])
#: Built-in functions that operations of tensors can stand in for.
_BUILT_IN = frozenset("min max abs sum float int bool len range str zip enumerate".split())
#: Methods of a tensor that do more than to compute another one.
_ACTS = frozenset(["backward", "register_hook", "share_memory_"])


def note_decision(run: Interpreter, clause: cst.If, env: Env) -> None:
    """Tell of the waits in the test of an `if` whether the answer is needed at once.

    A watch for numbers that went wrong may look now and then, whatever it does when it finds them, unless it leaves out
    the backward or the update of this very step.
    """
    watches = asks_for_wrong(clause.test)
    if Sync not in run.kinds or (watches and not _leaves_out_backward(run, clause)):
        return
    waits = [e for n in descendants(clause.test) if isinstance(e := run.events.get((Sync, n)), Sync)]
    waits += decide(run, clause.test, env)
    if watches:
        for wait in waits:
            wait.skips = True
        return
    if not waits:
        return
    orelse = clause.orelse
    rest: Sequence[cst.CSTNode] = [orelse] if type(orelse) is cst.If else orelse.body.body if orelse else ()
    asked = {n.value for n in descendants(clause.test) if type(n) is cst.Name}
    body = clause.body.body
    decides = (
        _acts(run, body, env) or _acts(run, rest, env) or any(_picks(n, asked) for n in _statements(body))
    )
    for wait in waits:
        wait.decides |= decides


def _leaves_out_backward(run: Interpreter, clause: cst.If) -> bool:
    """Whether the backward or the update is in a branch, or one begins the next round before this backward."""
    blocks = (clause.body, clause.orelse) if clause.orelse is not None else (clause.body,)
    if any(_called_method(n) in _TRAINS for block in blocks for n in descendants(block)):
        return True
    loop = run.scene.step_loop
    if loop is None or type(next(reversed(list(_statements(clause.body.body))), None)) is not cst.Continue:
        return False
    nodes = iter(descendants(loop))
    reached = any(node is clause for node in nodes)
    return reached and any(type(n) is cst.Attribute and n.attr.value == "backward" for n in nodes)


#: What a step that went wrong is better left without.
_TRAINS = frozenset(["backward", "step"])


def _called_method(node: cst.CSTNode) -> str:
    return node.func.attr.value if type(node) is cst.Call and type(node.func) is cst.Attribute else ""


def _acts(run: Interpreter, body: Sequence[cst.CSTNode], env: Env) -> bool:
    """Whether a block does what no operation on the device can stand in for.

    It saves, counts, calls a layer, or goes elsewhere. A block that ends the program may end it later.
    """
    smalls = list(_statements(body))
    if smalls and (type(smalls[-1]) is cst.Raise or _called(smalls[-1]) in _LEAVES):
        return False
    return any(_acts_alone(run, small, env) for small in smalls)


def _picks(statement: cst.CSTNode, asked: set[str]) -> bool:
    """Whether a statement takes what the mask in the test selects, and so waits for how much that is anyway."""
    if not isinstance(statement, cst.Assign):
        return False
    indices = (
        element.slice.value
        for node in descendants(statement.value)
        if type(node) is cst.Subscript
        for element in node.slice
        if type(element.slice) is cst.Index
    )
    return any(type(index) is cst.Name and index.value in asked for index in indices)


def _statements(body: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The statements of a block, those of the blocks in it included."""
    for statement in body:
        if type(statement) is cst.SimpleStatementLine:
            yield from statement.body
        elif isinstance(statement, (cst.If, cst.For, cst.With)):
            yield from _statements(statement.body.body)
            orelse = None if isinstance(statement, cst.With) else statement.orelse
            if orelse is not None:
                yield from _statements([orelse] if type(orelse) is cst.If else orelse.body.body)
        else:
            yield statement


def _acts_alone(run: Interpreter, node: cst.CSTNode, env: Env) -> bool:
    if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
        if node.value is None:
            return False
        target = node.targets[0].target if isinstance(node, cst.Assign) else node.target
        return _is_of_host(run, target, node.value, env) or _calls_more(run, node.value, env)
    if isinstance(node, cst.Expr):
        if type(node.value) is cst.Call:
            return _called(node) not in _TELLS and _calls_more(run, node.value, env)
        return _calls_more(run, node.value, env)
    return not isinstance(node, (cst.Raise, cst.Assert, cst.Pass, cst.Global, cst.Import, cst.ImportFrom))


def _is_of_host(run: Interpreter, target: cst.BaseExpression, value: cst.BaseExpression, env: Env) -> bool:
    """Whether an assignment keeps what is not known to be a tensor."""
    if isinstance(value, cst.BaseNumber | cst.BaseString):
        return dotted(target) is not None and run.evaluate(target, env).kind is not Kind.TENSOR
    name = dotted(value)
    if name is None:
        return False
    if name in ("True", "False", "None"):
        return True
    known = run.lookup(name, env)
    return known is not None and known.kind is not Kind.TENSOR and "computed" not in known.facts


def _calls_more(run: Interpreter, value: cst.BaseExpression, env: Env) -> bool:
    """Whether an expression calls more than operations on tensors."""
    return any(not _is_operation(run, n, env) for n in descendants(value) if type(n) is cst.Call)


def _is_operation(run: Interpreter, call: cst.Call, env: Env) -> bool:
    func = call.func
    if type(func) is cst.Name and func.value in _BUILT_IN:
        return True
    root: cst.CSTNode = func
    while type(root) is cst.Attribute:
        root = root.value
    known = run.lookup(root.value, env) if type(root) is cst.Name else None
    if known is not None and known.kind is Kind.API:
        name = known.name or ""
        # What processes do together decides for all of them.
        shared = ".distributed." in f"{name}.{(dotted(func) or '').partition('.')[2]}"
        return name.startswith("torch") and not shared and _called(call) not in ("save", "load")
    if type(func) is not cst.Attribute:
        return False
    return torch_api.is_method(func.attr.value) and func.attr.value not in _ACTS


def _called(node: cst.CSTNode) -> str:
    """The last name of what a call, or a statement that is one, calls."""
    call = node.value if isinstance(node, cst.Expr) else node
    return (dotted(call.func) or "").rpartition(".")[2] if isinstance(call, cst.Call) else ""
