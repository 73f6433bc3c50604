"""`for` and `while`: what each round finds, how often it runs, and what holds behind the loop."""

from __future__ import annotations

import libcst as cst

from torchlint.placement.hazards.discards import mark_loop_variable
from torchlint.placement.hazards.syncs import may_wait
from torchlint.placement.interpreter import (
    LOOP_PASSES,
    Env,
    Interpreter,
    Outcome,
    join_env,
    replace_env,
    statement,
)
from torchlint.placement.language.binding import bind
from torchlint.placement.language.conditions import truth_test
from torchlint.placement.language.keys import goes_over_some, replace_all, round_of
from torchlint.placement.language.rounds import Carried, carried
from torchlint.placement.scene import Scene
from torchlint.placement.syntax import assigned_names, dotted, mentions, words
from torchlint.placement.values import Kind, Value, join, with_rank


def _next_round(run: Interpreter, before: Env, env: Env) -> Env:
    """What holds when a loop begins anew: a condition on what its body changed says nothing any more."""
    after = join_env(before, env)
    for left in run.frame.exits[-1]:
        after = join_env(after, left)
    run.frame.exits[-1].clear()
    return _without_old_tests(before, after)


def _bound_by_rounds(target: cst.BaseExpression, ends: list[Env]) -> Env:
    """What the variables of a loop hold at the ends of its rounds."""
    bound: Env = {}
    for name in assigned_names(target):
        for end in ends:
            if name in end:
                bound[name] = join(bound.get(name), end[name])
    return bound


def _without_old_tests(before: Env, after: Env) -> Env:
    changed = {name for name, value in after.items() if value is not before.get(name)}
    for name in changed:
        places = after[name].places
        if any(mentions(condition, changed) for p in places for condition, _ in p.guards):
            after[name] = after[name].at(
                tuple(p._replace(guards=frozenset(g for g in p.guards if not mentions(g[0], changed))) for p in places)
            )
    return after


#: Factories of tensors with a single dimension, whatever their arguments are.
_RANGES = frozenset(["arange", "randperm", "linspace"])


def _number_of(iterable: cst.BaseExpression, element: Value) -> Value:
    """An element of `torch.arange(n)` is a 0-dim tensor."""
    name = dotted(iterable.func) if type(iterable) is cst.Call else None
    single = element.kind is Kind.TENSOR and name is not None and name.rpartition(".")[2] in _RANGES
    return element.at(with_rank(element.places, 0)) if single else element


@statement(cst.For)
def for_(run: Interpreter, node: cst.For, env: Env) -> Outcome | None:
    iterable = run.evaluate(node.iter, env)
    scene = run.scene
    transparent = id(node) in run.usage.parts_loops
    hot = id(node) in run.usage.hot or (transparent and scene.hot)
    small = transparent or id(node) in run.usage.small_loops or _goes_over_tensors(iterable)
    entered = enter_loop(run, node, small)
    run.scene = entered._replace(
        loops=(*scene.loops, node), hot=hot, tests=entered.tests | iterable.tests if iterable.tests else entered.tests
    )
    run.frame.exits.append([])
    mark_loop_variable(run, node)
    entered_always = goes_over_some(run, node.iter)
    for round_ in range(1, LOOP_PASSES + 1):
        before, sent = dict(env), _sent(run)
        element = round_of(run, node.iter, node.target, iterable, node.body)
        bind(run, node.target, _number_of(node.iter, element), env, None)
        ended = run.suite(node.body, env)
        ends = [*run.frame.exits[-1], *(() if ended else (dict(env),))]
        always = entered_always and not ended and not run.frame.exits[-1]
        replace_env(env, _next_round(run, before, env))
        if round_ == LOOP_PASSES or (sent == _sent(run) and not _carried(run, node).learns(before, env)):
            break
    # Who reads the loop's variable behind the loop counts on a round.
    after = ends[0] if always else {**env, **_bound_by_rounds(node.target, ends)}
    replace_env(env, _without_old_tests(before, after))
    run.frame.exits.pop()
    if run.frame.replaced:
        replace_all(run, node, env)
    run.scene = scene
    run.frame.trained |= hot
    if hot or "range(" not in words(node.iter):
        # Over many batches the queue is full, and waits even out.
        run.timeline.waits()
    if node.orelse is not None:
        run.suite(node.orelse.body, env)
    return None


def _sent(run: Interpreter) -> int:
    """How many pairs of places are known between which something was sent: it only grows."""
    return sum(map(len, run.frame.sent.values()))


def _carried(run: Interpreter, loop: cst.For | cst.While) -> Carried:
    """What rounds of a loop hand on; asked for once a loop, since loops within loops are run several times."""
    known = run.carried.get(id(loop))
    if known is None:
        known = run.carried[id(loop)] = carried(loop)
    return known


def _goes_over_tensors(iterable: Value) -> bool:
    """Whether a loop goes over the rows of a tensor, or over tensors at hand."""
    if may_wait(iterable):
        return True
    element = iterable.element if iterable.kind is Kind.SEQUENCE else None
    if element is None:
        return False
    if element.kind is Kind.SEQUENCE and element.items:  # a `zip` of them
        return all(may_wait(item) and not item.facts & {"batch", "collated"} for item in element.items)
    return element.kind is Kind.TENSOR


def enter_loop(run: Interpreter, node: cst.CSTNode, small: bool) -> Scene:
    """The scene in a loop: what was tested outside says nothing of how often the steps in it run."""
    scene = run.scene
    if id(node) in run.usage.hot:
        if scene.stepwise and small:
            return scene
        return scene._replace(stepwise=True, step_loop=node, evaluating=False, tests=scene.tests - _OF_THE_LOOP_AROUND)
    within = scene.role in ("forward", "optimizer")
    return scene._replace(stepwise=scene.stepwise and (small or within))


_OF_THE_LOOP_AROUND = frozenset(["periodic", "between", "first", "several"])


@statement(cst.While)
def while_(run: Interpreter, node: cst.While, env: Env) -> Outcome | None:
    scene = run.scene
    run.frame.exits.append([])
    run.scene = enter_loop(run, node, False)._replace(loops=(*scene.loops, node), hot=id(node) in run.usage.hot)
    for round_ in range(1, LOOP_PASSES + 1):
        before, sent = dict(env), _sent(run)
        within = run.scene
        if scene.every_step and not within.stepwise:
            run.scene = scene  # what is asked in every step, and more than once
        test = run.evaluate(node.test, env)
        truth_test(run, node.test, test)
        run.scene = within
        run.suite(node.body, env)
        replace_env(env, _next_round(run, before, env))
        if round_ == LOOP_PASSES or (sent == _sent(run) and not _carried(run, node).learns(before, env)):
            break
    run.frame.exits.pop()
    run.scene = scene
    run.frame.trained |= id(node) in run.usage.hot
    run.timeline.waits()
    if node.orelse is not None:
        run.suite(node.orelse.body, env)
    return None
