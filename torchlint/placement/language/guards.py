"""How often the code behind a test runs: every time, now and then, once, or only when something went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.placement.syntax import assigned_names, conjuncts, descendants, dotted, integer, string, words
from torchlint.placement.values import Kind, Value

if TYPE_CHECKING:
    from torchlint.placement.interpreter import Interpreter

_NOTHING: frozenset[str] = frozenset()
_PERIODIC = frozenset(["periodic"])
_RARE = frozenset(["rare"])

#: `should_log`, `log_now`, `every_n_iters`, `is_log_step`: names that promise a yes only now and then.
_NOW_AND_THEN = re.compile(
    r"(?:^|_)(?:should|every|shall|interval|freq|frequency|period|periodic|due|now|cadence)(?:_|$)"
    r"|(?:^|_)(?:log|print|report|eval|save|vis|viz|plot|display|summary|val|validate|checkpoint)_?(?:this_?)?"
    r"(?:step|iter|iteration|time|now|flag)$"
    r"|^(?:do|is|to|will|need|needs|must|want|wants|can)_(?:log|print|report|eval|save|plot|summar|vis|display|val)",
    re.IGNORECASE,
)
_DEBUGGING = re.compile(
    r"(?:^|_)(?:debug\w*|verbose|verbosity|profil\w*|sanity\w*)(?:_|$)"
    r"|^(?:log|print|show|report|track)_(?:loss|losses|grads?|gradients?|norms?|stats|info|outputs?|metrics?|progress)$",
    re.IGNORECASE,
)
_ONCE = re.compile(
    r"^(?:is_)?(?:init|initiali[sz]e|initiali[sz]ing|first_(?:step|iter|iteration|batch|run|time|call))$"
)
#: Flags of code that trains and evaluates: `inference`, `is_eval`, `eval_mode`; `training`.
_EVALUATES = re.compile(
    r"^(?:is_|in_|do_|run_)?(?:infer|inference|eval|evaluate|evaluating|evaluation|validate|validating|validation"
    r"|testing|predicting)(?:_mode|_only)?$"
)
_TRAINS = re.compile(r"^(?:is_|in_)?(?:train|training)(?:_mode)?$")
_COUNTER = re.compile(
    r"(?:^|_)(?:steps?|i|j|k|n|t|idx|index|iters?|iteration|it|ii|epoch|batch|batch_?i(?:dx)?|count(?:er)?|num|itr)$"
)
_GONE_WRONG = frozenset(
    ["isnan", "isinf", "isfinite", "is_nan", "is_inf", "nan_to_num", "nonfinite", "overflow"]
)
_LEAVES = frozenset(["exit", "_exit", "abort"])
_WARNS = frozenset(["warn", "warning", "warn_once", "warning_once", "error", "exception", "critical"])


@lru_cache(maxsize=4096)  # the same few names over and over
def name_tests(text: str) -> frozenset[str]:
    """What a name (or an attribute, or a function that is called) says as a test, by its last part."""
    last = text.rsplit(".", 1)[-1]
    if _NOW_AND_THEN.search(last):
        return _PERIODIC
    if _ONCE.search(last):
        return frozenset(["first"])
    if _EVALUATES.search(last):
        return frozenset(["inference"])
    if _TRAINS.search(last):
        return frozenset(["training"])
    return frozenset(["debug"]) if _DEBUGGING.search(last) else _NOTHING


def frequency_tests(
    node: cst.Comparison, values: Sequence[Value], operators: Sequence[Any], counters: set[str]
) -> frozenset[str]:
    """What a comparison says of how often it holds.

    `step % n == 0` holds now and then, `step % n != 0` in between; `step == 10` once; `time.time() > due` now and
    then. counters: names that the scope counts up.
    """
    if any("modulo" in v.facts for v in values):
        return frozenset(["between"]) if _is_between(node, operators) else _PERIODIC
    if any("clock" in v.facts for v in values) and any(_orders(o) for o in operators):
        return _PERIODIC
    if cst.NotEqual in operators and _is_of_batch(node.left):
        return _RARE  # the last batch of an epoch
    names = [dotted(n) or "" for n in (node.left, *(c.comparator for c in node.comparisons))]
    counted = any(n in counters or _counts_up(n) for n in names if n)
    if counted and not any(v.kind in (Kind.TENSOR, Kind.STRING, Kind.NONE) for v in values):
        if cst.Equal in operators:
            return frozenset(["first"])
        if cst.In in operators:
            return _PERIODIC
        if _is_of_the_first(node, names[0], operators):
            return frozenset(["first"])
    if any(o in (cst.Equal, cst.GreaterThan, cst.GreaterThanEqual) for o in operators):
        if any(map(_promises_seldom, names)):
            return _PERIODIC
    return _NOTHING


@lru_cache(maxsize=4096)
def _counts_up(name: str) -> bool:
    return _COUNTER.search(name.rsplit(".", 1)[-1]) is not None


@lru_cache(maxsize=4096)
def _promises_seldom(name: str) -> bool:
    return any(_NOW_AND_THEN.search(part) for part in name.split("."))


def _is_of_batch(node: cst.BaseExpression) -> bool:
    """`len(x)`, `x.shape[0]`, `x.size(0)`: how many there are in a batch."""
    if type(node) is cst.Subscript:
        index = node.slice[0].slice
        whole = len(node.slice) == 1 and type(index) is cst.Index and integer(index.value) == 0
        return whole and words(node.value).endswith(".shape")
    text = words(node)
    return text.endswith(".size(0)") or (text.startswith("len(") and type(node) is cst.Call)


def _is_of_the_first(node: cst.Comparison, name: str, operators: Sequence[Any]) -> bool:
    """`step < 10`, `count <= 0`: the first few steps; an epoch has many steps."""
    if len(operators) != 1 or operators[0] not in (cst.LessThan, cst.LessThanEqual):
        return False
    return bool(name) and "epoch" not in name and integer(node.comparisons[0].comparator) is not None


def _orders(operator: Any) -> bool:
    return operator in (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


def _is_between(node: cst.Comparison, operators: Sequence[Any]) -> bool:
    """Whether a comparison of `step % n` holds for most steps."""
    if operators[0] is cst.NotEqual:
        return True
    return operators[0] is cst.GreaterThan and integer(node.comparisons[0].comparator) == 0


def branch_tests(run: Interpreter, clause: cst.If) -> frozenset[str]:
    """What the body of an `if` says of how often it runs: a branch that ends the loop runs once."""
    body = clause.body.body
    if not body:
        return _NOTHING
    last: cst.CSTNode = body[-1]
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    leaves = type(last) in (cst.Raise, cst.Break) or _calls(last, _LEAVES) or _calls(last, _WARNS)
    if type(last) is cst.Return:
        leaves = bool(run.scene.loops)
    if leaves:
        return _RARE
    if asks_for_wrong(clause.test):
        asked = {n.value for n in descendants(clause.test) if type(n) is cst.Name}
        positive = not (type(clause.test) is cst.UnaryOperation and type(clause.test.operator) is cst.Not)
        wrong = positive != any("isfinite" in name for name in asked)
        return _RARE if wrong else _NOTHING
    if _makes_what_is_missing(clause.test, body):
        return frozenset(["first"])
    return _PERIODIC if _resets(clause, body) or _clears_what_it_asks(clause, body) else _NOTHING


def asks_for_wrong(test: cst.BaseExpression) -> bool:
    """Whether a test looks for numbers that are not finite."""
    return any(type(n) is cst.Name and n.value in _GONE_WRONG for n in descendants(test))


def ends_update(body: cst.BaseSuite) -> bool:
    """Whether a block steps an optimizer: every batch or every few, what stands in it runs in each update."""
    for line in body.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            call = small.value if isinstance(small, (cst.Expr, cst.Assign)) else None
            if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
                if call.func.attr.value == "step" and _STEPPED.search(words(call.func.value)):
                    return True
    return False


_STEPPED = re.compile(r"optim|scaler|(?:^|[_.])opt(?:[_.]|$)", re.IGNORECASE)


def _makes_what_is_missing(test: cst.BaseExpression, body: Sequence[cst.CSTNode]) -> bool:
    """`if "norm" not in state: state["norm"] = …`, `if self.mean is None: self.mean = …`: that happens once."""
    if type(test) is cst.BooleanOperation and type(test.operator) is cst.Or:  # or it is too small for what comes
        return _makes_what_is_missing(test.left, body)
    if type(test) is cst.UnaryOperation and type(test.operator) is cst.Not:
        asked = [test.expression]
        if words(test.expression).startswith("hasattr("):
            return _registers(body) or _makes(asked[0], body)
    elif type(test) is cst.Comparison and len(test.comparisons) == 1:
        operator, other = type(test.comparisons[0].operator), test.comparisons[0].comparator
        empty = integer(other) == 0 and words(test.left).startswith("len(")
        if operator is cst.NotIn:
            asked = [other]
        elif (operator is cst.Is and dotted(other) == "None") or (operator is cst.Equal and empty):
            asked = [test.left]
        else:
            return False
    else:
        return False
    return _makes(asked[0], body)


def has_it_already(run: Interpreter, clause: cst.If) -> bool:
    """`if self.table is not None and …: return`, in a function that fills the table below: that happens once."""
    function, last = run.frame.function, clause.body.body[-1] if clause.body.body else None
    if function is None or type(last) is not cst.SimpleStatementLine or type(last.body[-1]) is not cst.Return:
        return False
    test = clause.test
    while type(test) is cst.BooleanOperation and type(test.operator) is cst.And:
        test = test.left
    if type(test) is not cst.Comparison or len(test.comparisons) != 1:
        return False
    there = type(test.comparisons[0].operator) is cst.IsNot and dotted(test.comparisons[0].comparator) == "None"
    return there and "." in (dotted(test.left) or "") and _makes(test.left, function.node.body.body)


def _registers(body: Sequence[cst.CSTNode]) -> bool:
    """Whether a block gives a Module a buffer or a parameter."""
    calls = [node for statement in body for node in descendants(statement) if type(node) is cst.Call]
    return any((dotted(call.func) or "").rpartition(".")[2] in _REGISTERING for call in calls)


_REGISTERING = frozenset(["register_buffer", "register_parameter"])


def _makes(asked: cst.BaseExpression, body: Sequence[cst.CSTNode]) -> bool:
    """Whether a block gives a value to what a test asks for."""
    names = {dotted(node) for node in descendants(asked)} - {None, "len", "hasattr"} | _asked_by_name(asked)
    return any(_keeps(target) in names for target in _assigned(body))


def _asked_by_name(test: cst.BaseExpression) -> set[str | None]:
    """`self.mean` for `hasattr(self, "mean")`."""
    if type(test) is not cst.Call or dotted(test.func) != "hasattr" or len(test.args) != 2:
        return set()
    return {f"{dotted(test.args[0].value)}.{string(test.args[1].value)}"}


def _keeps(target: cst.CSTNode) -> str | None:
    """The name of what an assignment changes for good: an attribute, or what has an item set."""
    if type(target) is cst.Subscript:
        return dotted(target.value)
    name = dotted(target)
    return name if name is not None and "." in name else None


def _assigned(body: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The targets of a block's assignments, those of the blocks in it included."""
    for statement in body:
        for node in descendants(statement):
            if type(node) is cst.AssignTarget:
                yield node.target
            elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.args:
                name = string(node.args[0].value)
                if node.func.attr.value == "register_buffer" and name is not None:
                    yield cst.Attribute(node.func.value, cst.Name(name))


def _calls(node: cst.CSTNode, names: frozenset[str]) -> bool:
    call = node.value if type(node) is cst.Expr else None
    return type(call) is cst.Call and (dotted(call.func) or "").rsplit(".", 1)[-1] in names


def _resets(clause: cst.If, body: Sequence[cst.CSTNode]) -> bool:
    """`if count >= 100: …; count = 0`, `if now > due: …; due = now + 60`, `if every and step - last >= every: …`."""
    compared = set()
    for test in conjuncts(clause.test):
        if type(test) is cst.Comparison and _orders(type(test.comparisons[0].operator)):
            compared |= {name for name in map(dotted, descendants(test)) if name is not None}
    if not compared:
        return False
    return any(
        isinstance(target, cst.BaseExpression) and compared & {*assigned_names(target), dotted(target)}
        for target in _assigned(body)
    )


def _clears_what_it_asks(clause: cst.If, body: Sequence[cst.CSTNode]) -> bool:
    """`if self.wants_statistics: self.wants_statistics = False; …`: not again before something asks for it anew."""
    asked = {dotted(test) for test in conjuncts(clause.test)} - {None}
    return bool(asked) and any(
        isinstance(small, cst.Assign)
        and dotted(small.value) in ("False", "None")
        and any(dotted(target.target) in asked for target in small.targets)
        for line in body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
    )


def tests_of(node: cst.BaseExpression, value: Value) -> frozenset[str]:
    """What an operand of a test says: by what it was computed from, else by its name."""
    if value.tests or value.kind is Kind.TENSOR:
        return value.tests
    kind = type(node)
    if kind is cst.Name or kind is cst.Attribute:
        return name_tests(words(node))
    return name_tests(words(node.func)) if kind is cst.Call else _NOTHING  # type: ignore[attr-defined]
