"""How statements change what is known."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.calls.operations import augmented
from torchlint.placement.devices import asks_for_cuda, follow_tensor
from torchlint.placement.events import Autocast, Demand, Return, Sync
from torchlint.placement.evidence.demands import (
    asks_availability,
    asserts_cuda,
    flags_of_import,
    imports_torch,
    leaves_program,
    note_demand,
    note_import,
    note_text,
)
from torchlint.placement.hazards.discards import (
    mark_dropped,
    mark_dropped_elements,
    mark_unread,
)
from torchlint.placement.hazards.graphs import keep_carried, keep_sum
from torchlint.placement.hazards.loads import note_loaded
from torchlint.placement.hazards.syncs import demand_compared, ends_loop
from torchlint.placement.hazards.timers import Timer, leave_timer, timer_of_context
from torchlint.placement.interpreter import (
    ENDED,
    Env,
    Interpreter,
    Outcome,
    forget_below,
    join_env,
    key_of,
    negated,
    replace_env,
    statement,
)
from torchlint.placement.knowledge.apis import api_value
from torchlint.placement.language.binding import bind
from torchlint.placement.language.branches import (
    Branch,
    choice_of,
    condition_of,
    conditions_of,
    drop_placeholders,
    meet,
    opposite,
    world_of,
)
from torchlint.placement.language.conditions import narrow, truth_test
from torchlint.placement.language.decisions import note_decision
from torchlint.placement.language.guards import branch_tests, ends_update, has_it_already, tests_of
from torchlint.placement.syntax import conjuncts, descendants, dotted, words
from torchlint.placement.values import (
    NO_FACTS,
    NONE,
    UNKNOWN,
    Kind,
    Value,
    returned_under,
)


@statement(cst.Expr)
def expr(run: Interpreter, node: cst.Expr, env: Env) -> Outcome | None:
    value = node.value
    note_text(run, node)
    row = value if type(value) is cst.Tuple else None
    parts = [e.value for e in row.elements] if row is not None else [value]
    for part in parts:
        if type(part) is cst.Call:
            from torchlint.placement.calls.dispatch import dropped_call

            dropped_call(run, part, env, row)
            if leaves_program(run, part, env):
                return ENDED
        else:
            if type(part) is not cst.SimpleString and isinstance(part, cst.BaseComp):  # next to all are docstrings
                mark_dropped_elements(run, part)
            for arm in _arms(part):
                mark_dropped(run, arm, env, None)
            run.evaluate(part, env)
    return None


def _arms(node: cst.BaseExpression) -> list[cst.Call]:
    """The calls one of which a conditional expression, or a condition and what it lets happen, comes down to."""
    ends: list[cst.BaseExpression] = []
    if type(node) is cst.IfExp:
        ends = [node.body, node.orelse]
    elif type(node) is cst.BooleanOperation:
        ends = [node.right]
    return [call for end in ends for call in ([end] if type(end) is cst.Call else _arms(end))]


@statement(cst.Assign)
def assign(run: Interpreter, node: cst.Assign, env: Env) -> Outcome | None:
    mark_unread(run, node)
    value = run.evaluate(node.value, env)
    note_loaded(run, node.value, words(node.targets[0].target))
    if run.scene.no_grad and "grad" in value.facts and value.kind in (Kind.TENSOR, Kind.UNKNOWN):
        value = value.but(facts=value.facts - {"grad"} | {"cut"})
    if len(node.targets) == 1 and type(node.value) is cst.BinaryOperation:
        keep_sum(run, node, value, env)
    keep_carried(run, node, value)
    run.frame.statement = node if len(node.targets) == 1 else None
    for target in node.targets:
        bind(run, target.target, value, env, node.value)
    run.frame.statement = None
    return None


@statement(cst.AnnAssign)
def annotated_assign(run: Interpreter, node: cst.AnnAssign, env: Env) -> Outcome | None:
    if node.value is None:
        return None
    value = run.evaluate(node.value, env)
    if value.kind is Kind.UNKNOWN:
        from torchlint.placement.evidence.kinds import from_annotation

        promised = from_annotation(node.annotation.annotation, run, value.places)
        if promised is not None:
            value = promised
    bind(run, node.target, value, env, node.value)
    return None


@statement(cst.AugAssign)
def aug_assign(run: Interpreter, node: cst.AugAssign, env: Env) -> Outcome | None:
    left, right = run.evaluate(node.target, env), run.evaluate(node.value, env)
    bind(run, node.target, augmented(run, node, left, right, env), env, node.value, augmented=True)
    return None


@statement(cst.If)
def if_(run: Interpreter, node: cst.If, env: Env) -> Outcome | None:
    """An if with its elifs, which are walked in a loop since there may be a thousand of them."""
    scene, before, current = run.scene, dict(env), env
    branches: list[Branch] = []
    failed: tuple[tuple[str, bool], ...] = ()
    first: tuple[frozenset[str], tuple[str, bool] | None] | None = None
    tested: frozenset[str] = frozenset()
    taken_ends = False
    clause: cst.If | cst.Else | None = node
    while type(clause) is cst.If:
        told = len(run.events)
        test = run.evaluate(clause.test, current)
        truth_test(run, clause.test, test)
        if ends_loop(clause):
            demand_compared(run, clause.test, current)
        if len(run.events) > told or Sync in run.kinds:
            note_decision(run, clause, current)
        tests = tests_of(clause.test, test)
        key = condition_of(run, clause.test) or choice_of(run, clause.test, tests)
        if first is None:
            first = (tests, key)
        taken, skipped = dict(current), dict(current)
        narrow(run, clause.test, taken, skipped)
        if run.scene.loops and clause.orelse is not None and clause is node:
            drop_placeholders(clause, taken, skipped)
        within = tests - _OF_STEPS if tests & _OF_STEPS and ends_update(clause.body) else tests
        with run.under(within | branch_tests(run, clause), key):
            for part in conditions_of(run, clause.test):
                run.scene = run.scene.given(NO_FACTS, part)
            taken_ends = run.suite(clause.body, taken)
        if not taken_ends:
            branches.append(Branch(taken, failed if key is None else (*failed, key), world_of(tests, taken=True)))
        otherwise = opposite(key)
        if otherwise is not None:
            failed = (*failed, otherwise)
        run.scene = run.scene.given(negated(tests), otherwise)
        tested |= tests
        current = skipped
        clause = clause.orelse
    rest_ends = type(clause) is cst.Else and run.suite(clause.body, current)
    run.scene = scene
    if not rest_ends:
        branches.append(Branch(current, failed, world_of(tested, taken=False)))
    if taken_ends and node.orelse is None:
        note_demand(run, node)
    if not branches:
        return ENDED
    following = _followed(node, branches) if type(node.orelse) is not cst.If and len(branches) == 2 else {}
    merged = meet(before, branches)
    merged.update(following)
    if len(branches) > 1:
        # What a test said of `x[key]` holds in its branch alone.
        merged = {k: v for k, v in merged.items() if k[-1] != "]" or k in env}
    replace_env(env, merged)
    if type(node.orelse) is cst.If or first is None or taken_ends == rest_ends:
        return None
    tests, key = first
    if key is not None and taken_ends and _raises(node.body):
        run.frame.assured.add((key[0], not key[1]))
    if rest_ends:
        return Outcome(tests=tests, condition=key)
    once = frozenset(["first"]) if has_it_already(run, node) else NO_FACTS
    return Outcome(tests=negated(tests) | once, condition=opposite(key))


def _followed(node: cst.If, branches: list[Branch]) -> Env:
    """What names hold that `if x.is_cuda:` binds to a device."""
    if not asks_for_cuda(node.test):
        return {}
    taken, skipped = (branch.env for branch in branches)
    found = {n: follow_tensor(node, v, skipped.get(n)) for n, v in taken.items() if v is not skipped.get(n)}
    return {name: device for name, device in found.items() if device is not None}


#: What a test says of how many steps there are between.
_OF_STEPS = frozenset(["periodic", "between"])


def _raises(body: cst.BaseSuite) -> bool:
    """Whether a suite ends in a `raise`."""
    last: cst.CSTNode | None = body.body[-1] if body.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    return type(last) is cst.Raise


@statement(cst.With)
def with_(run: Interpreter, node: cst.With, env: Env) -> Outcome | None:
    scene, places = run.scene, run.context_places
    timers: list[Timer] = []
    for item in node.items:
        value = run.evaluate(item.item, env)
        timer = timer_of_context(value)
        if timer is not None:
            timers.append(timer)
        run.contexts[item.item] = value, run.scene.function
        if item.asname is not None:
            bind(run, item.asname.name, value, env, None)
        if value.kind is Kind.DEVICE:
            run.context_places = value.places
        if value.kind is Kind.CONTEXT:
            if value.name in ("no_grad", "inference_mode"):
                run.scene = run.scene._replace(no_grad=True)
            elif value.name == "enable_grad":
                run.scene = run.scene._replace(no_grad=False)
            elif isinstance(value.ref, Autocast):
                run.scene = run.scene._replace(autocast=value.ref.covers)
        elif _expects_error(item.item):
            run.scene = run.scene._replace(expects_error=True)
    began = run.timeline.now
    ended = run.suite(node.body, env)
    run.scene, run.context_places = scene, places
    for timer in timers:
        leave_timer(run, timer, began, node.body)
    return ENDED if ended else None


_NOW_AND_THEN = frozenset(["periodic"])


_WENT_WRONG = frozenset(["rare"])


_EXPECTING = frozenset(
    ["raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns", "assertWarnsRegex", "suppress"]
)


def _expects_error(context: cst.BaseExpression) -> bool:
    """Whether a context manager is there for code that fails or warns."""
    return type(context) is cst.Call and (dotted(context.func) or "").rsplit(".", 1)[-1] in _EXPECTING


def _goes_on(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether a handler lets the program go on, rather than raise again."""
    last = handler.body.body[-1] if handler.body.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    return type(last) is not cst.Raise


@statement(cst.Try, cst.TryStar)
def try_(run: Interpreter, node: cst.Try | cst.TryStar, env: Env) -> Outcome | None:
    start = dict(env)
    scene = run.scene
    run.scene = scene._replace(caught=scene.caught or any(map(_goes_on, node.handlers)))
    ended = run.suite(node.body, env)
    run.scene = scene
    ways: list[Env] = []
    entry = join_env(start, env)
    if not ended and node.orelse is not None:
        ended = run.suite(node.orelse.body, env)
    if not ended:
        ways.append(env)
    for handler in node.handlers:
        caught = dict(entry)
        if handler.name is not None:
            bind(run, handler.name.name, UNKNOWN, caught, None)
        with run.under(_WENT_WRONG, None):
            ended_here = run.suite(handler.body, caught)
        if not ended_here:
            ways.append(caught)
    merged = ways[0] if ways else entry
    for way in ways[1:]:
        merged = join_env(merged, way)
    merged = dict(merged)
    for name in flags_of_import(node.body):
        merged[name] = Value(Kind.NUMBER, tests=frozenset({"flag"}))
    replace_env(env, merged)
    if node.finalbody is not None and run.suite(node.finalbody.body, env):
        return ENDED
    return None if ways else ENDED


@statement(cst.Match)
def match(run: Interpreter, node: cst.Match, env: Env) -> Outcome | None:
    subject = run.evaluate(node.subject, env)
    ways = [dict(env)]
    for case in node.cases:
        way = dict(env)
        for name in _captured(case.pattern):
            way[name] = UNKNOWN
        if case.guard is not None:
            run.evaluate(case.guard, way)
        anything = type(case.pattern) is cst.MatchAs and case.pattern.pattern is None
        seldom = _NOW_AND_THEN if "modulo" in subject.facts and not anything else frozenset()
        with run.under(seldom, None):
            ended = run.suite(case.body, way)
        if not ended:
            ways.append(way)
        if anything and case.guard is None:
            ways.pop(0)
            break
    if not ways:
        return ENDED
    merged = ways[0]
    for way in ways[1:]:
        merged = join_env(merged, way)
    replace_env(env, merged)
    return None


def _captured(pattern: cst.CSTNode) -> list[str]:
    names = []
    for node in descendants(pattern):
        if type(node) in (cst.MatchAs, cst.MatchStar) and node.name is not None:  # type: ignore[attr-defined]
            names.append(node.name.value)  # type: ignore[attr-defined]
    return names


@statement(cst.Return)
def return_(run: Interpreter, node: cst.Return, env: Env) -> Outcome | None:
    value = run.evaluate(node.value, env) if node.value is not None else NONE
    if run.frame.function is not None:
        earlier = tuple(run.frame.returns)
        if value.kind in (Kind.TENSOR, Kind.SEQUENCE, Kind.UNKNOWN):
            run.emit(Return(node, run.scene, value, earlier))
        for test in run.scene.conditions:
            value = returned_under(value, *test)
        if run.scene.only_host:
            value = value.at(())  # here nothing is elsewhere
        run.frame.returns.append((node, value))
    return ENDED


@statement(cst.Raise)
def raise_(run: Interpreter, node: cst.Raise, env: Env) -> Outcome | None:
    if node.exc is not None:
        with run.under(_WENT_WRONG, None):
            run.evaluate(node.exc, env)
    return ENDED


@statement(cst.Continue, cst.Break)
def leave_loop(run: Interpreter, node: cst.CSTNode, env: Env) -> Outcome | None:
    if run.frame.exits:
        run.frame.exits[-1].append(dict(env))
    return ENDED


@statement(cst.Assert)
def assert_(run: Interpreter, node: cst.Assert, env: Env) -> Outcome | None:
    test = run.evaluate(node.test, env)
    truth_test(run, node.test, test)
    narrow(run, node.test, env, {})
    if asks_availability(node.test):
        run.emit(Demand(node, run.scene, "exit"))
    elif asserts_cuda(node.test):
        run.emit(Demand(node, run.scene, "refusal"))
    if node.msg is not None:
        with run.under(_WENT_WRONG, None):
            run.evaluate(node.msg, env)
    for part in conjuncts(node.test):
        flag = part.expression if type(part) is cst.UnaryOperation else part
        key = condition_of(run, part) if dotted(flag) is not None else None
        if key is not None:  # a flag tells which way was taken; any other assert is a check, and tells of no way
            run.frame.assured.add(key)
            run.scene = run.scene.given(NO_FACTS, key)
    return Outcome(tests=test.tests, condition=None) if test.tests else None


@statement(cst.Del)
def del_(run: Interpreter, node: cst.Del, env: Env) -> Outcome | None:
    name = key_of(node.target)
    if name is not None:
        env.pop(name, None)
        forget_below(name, env)
    return None


@statement(cst.Global, cst.Nonlocal)
def global_(run: Interpreter, node: cst.Global | cst.Nonlocal, env: Env) -> Outcome | None:
    if type(node) is cst.Global:
        run.frame.global_names.update(item.name.value for item in node.names)
    return None


@statement(cst.FunctionDef)
def function_def(run: Interpreter, node: cst.FunctionDef, env: Env) -> Outcome | None:
    from torchlint.placement.definitions.functions import define

    env[node.name.value] = define(run, node, env, None)
    return None


@statement(cst.ClassDef)
def class_def(run: Interpreter, node: cst.ClassDef, env: Env) -> Outcome | None:
    from torchlint.placement.definitions.classes import define_class

    env[node.name.value] = define_class(run, node, env)
    return None


@statement(cst.Import)
def import_(run: Interpreter, node: cst.Import, env: Env) -> Outcome | None:
    for alias in node.names:
        name = dotted(alias.name) or ""
        run.torch_imported |= imports_torch(name)
        note_import(run, node, name)
        if alias.asname is not None and type(alias.asname.name) is cst.Name:
            env[alias.asname.name.value] = Value(Kind.API, name=name)
        else:
            root = name.split(".")[0]
            env[root] = Value(Kind.API, name=root)
    return None


@statement(cst.ImportFrom)
def import_from(run: Interpreter, node: cst.ImportFrom, env: Env) -> Outcome | None:
    if isinstance(node.names, cst.ImportStar):
        return None
    base = "." * len(node.relative) + (dotted(node.module) or "" if node.module is not None else "")
    run.torch_imported |= imports_torch(base)
    for alias in node.names:
        note_import(run, node, f"{base}.{dotted(alias.name)}")
        name = alias.asname.name if alias.asname is not None else alias.name
        if type(name) is cst.Name and type(alias.name) is cst.Name:
            separator = "" if base.endswith(".") else "."
            env[name.value] = api_value(f"{base}{separator}{alias.name.value}")
    return None
