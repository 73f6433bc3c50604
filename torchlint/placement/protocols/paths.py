"""The paths of a function: branches, loops with back edges, early exits, `try`, `with`, followed calls."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import libcst as cst

from torchlint.placement.definitions.records import Function
from torchlint.placement.protocols.conditions import Conditions, atom, constant, speaks_of, without
from torchlint.placement.protocols.names import (
    Scope,
    bound_names,
    definitions,
    locals_of,
    statements_below,
    targets_of,
)
from torchlint.placement.syntax import children, dotted

#: More ways than this at one point are not followed: the function stays unjudged.
MOST_WAYS = 160
#: So many statements are run, over all ways and rounds, for one function.
MOST_STEPS = 30_000
#: Rounds over a loop body: what a state can't reach in these, it does not reach.
LOOP_ROUNDS = 5
#: How deep calls are followed.
MOST_CALLS = 5

_LEAVING = frozenset(["exit", "quit", "sys.exit", "os._exit"])
_COMPREHENSIONS = frozenset([cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp])
_APART = frozenset([cst.FunctionDef, cst.ClassDef, cst.Lambda])
_JUMPS = frozenset([cst.Return, cst.Raise, cst.Continue, cst.Break])
_COMPOUND = frozenset([cst.If, cst.For, cst.While, cst.With, cst.Try, cst.TryStar, cst.Match])


class TooManyPaths(Exception):
    """The function has more paths than are followed."""


class Way(NamedTuple):
    """A path so far: what it assumed of tests, and the state of the automaton."""

    conditions: Conditions
    state: Any


Ways = frozenset[Way]
NOWHERE: Ways = frozenset()


class Automaton(ABC):
    """What runs along the paths. States are hashable values; each hook says what becomes of them."""

    @abstractmethod
    def concerns(self, node: cst.CSTNode) -> bool:
        """Whether something happens at a node that the automaton has to see."""

    @abstractmethod
    def visit(self, node: cst.CSTNode, ways: Ways, walk: Walk) -> Ways:
        """Ways come past an expression whose parts they have passed."""

    @abstractmethod
    def assign(
        self, target: cst.CSTNode, value: cst.BaseExpression | None, state: Any, walk: Walk, weak: bool
    ) -> Any:
        """A target gets a value. weak: perhaps."""

    @abstractmethod
    def returned(self, node: cst.Return | None, state: Any, walk: Walk) -> Any:
        """A way leaves the function that is walked, by `return` or by its end."""

    @abstractmethod
    def statement_ends(self, state: Any) -> Any:
        """What was kept for the rest of the statement goes."""

    @abstractmethod
    def enter(self, item: cst.WithItem) -> object:
        """A `with` item begins; what it returns is handed to `leave`."""

    @abstractmethod
    def leave(self, entered: object) -> None:
        """A `with` item ends."""

    @abstractmethod
    def back_edge(self, state: Any, jump: cst.CSTNode | None, walk: Walk) -> Any:
        """A round of a loop ends, early by `jump`."""


class Guard(NamedTuple):
    """A test around code: its atom, and the names that the innermost loop around it binds."""

    text: str
    changing: frozenset[str]

    @property
    def varies(self) -> bool:
        """Whether its truth may differ from one round of the loop to the next."""
        return any(speaks_of(self.text, name) for name in self.changing)


class _Exits:
    """The ways that leave the normal course of a function, collected per function and loop."""

    def __init__(self) -> None:
        self.returns: set[Way] = set()
        self.breaks: list[set[Way]] = []
        self.continues: list[set[Way]] = []

    def set_apart(self) -> list[set[Way]]:
        """Collect anew; what was collected, of returns, and of the breaks and continues of the innermost loop."""
        outer = [self.returns, *self.breaks[-1:], *self.continues[-1:]]
        self.returns = set()
        self.breaks[-1:] = [set() for _ in self.breaks[-1:]]
        self.continues[-1:] = [set() for _ in self.continues[-1:]]
        return outer

    def put_back(self, outer: list[set[Way]]) -> list[set[Way]]:
        """Go on with what was collected before; what was collected since, in the same order."""
        since = [self.returns, *self.breaks[-1:], *self.continues[-1:]]
        self.returns = outer[0]
        if self.breaks:
            self.breaks[-1], self.continues[-1] = outer[1], outer[2]
        return since


class Walk:
    """Runs an automaton along all paths of one function, into those that it calls."""

    def __init__(self, automaton: Automaton, code_for: Callable[[cst.CSTNode], str]) -> None:
        self.automaton = automaton
        self.scopes: list[Scope] = []
        self.guards: list[Guard] = []
        #: Names that the loops around bind, innermost last; the calls that are being followed.
        self.changing: list[frozenset[str]] = []
        self.calls: list[cst.CSTNode] = []
        self._code_for = code_for
        self._exits: list[_Exits] = []
        self._steps = 0
        self._matters: dict[int, bool] = {}
        self._bound: dict[int, frozenset[str]] = {}
        self._facts: dict[int, tuple[frozenset[str], dict[str, cst.BaseExpression]]] = {}
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------------ functions

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def run(
        self, function: cst.FunctionDef | None, body: Iterable[cst.CSTNode], start: Any, receiver: str = ""
    ) -> Ways:
        """All ways through a function, or a module's body, to its ends. Raises TooManyPaths."""
        nodes = tuple(body)
        self._steps, self.guards, self.changing, self.calls = 0, [], [], []
        self.scopes, self._exits = [], []
        local, defined = self._facts_of(function, nodes)
        self.scopes.append(Scope(function, local, defined, self._code_for, receiver=receiver))
        return self._activation(nodes, frozenset({Way(frozenset(), start)}))

    def follow(self, function: Function, call: cst.Call, receiver: str, ways: Ways) -> Ways | None:
        """The ways that come back from a call; None where it is not followed."""
        node = function.node
        if len(self.calls) >= MOST_CALLS or any(s.function is node for s in self.scopes):
            return None
        body = tuple(node.body.body)
        number = next(self._numbers)
        local, defined = self._facts_of(node, body)
        scope = Scope(node, local, defined, self._code_for, f"~{number}", self.scope, receiver)
        scope.bind_arguments(function, call)
        self.scopes.append(scope)
        self.calls.append(call)
        try:
            back = self._activation(body, ways)
        finally:
            self.calls.pop()
        return frozenset(
            w._replace(conditions=frozenset(c for c in w.conditions if scope.prefix not in c[0]))
            for w in back
        )

    def _facts_of(
        self, function: cst.FunctionDef | None, body: tuple[cst.CSTNode, ...]
    ) -> tuple[frozenset[str], dict[str, cst.BaseExpression]]:
        """The local names of a function, and what those are bound to that are bound once."""
        known = self._facts.get(id(function))
        if known is None:
            local: frozenset[str] = frozenset() if function is None else locals_of(function)
            known = self._facts[id(function)] = local, definitions(body, function)
        return known

    def _activation(self, body: Iterable[cst.CSTNode], ways: Ways) -> Ways:
        exits = _Exits()
        self._exits.append(exits)
        try:
            through = self.block(body, ways)
            ended = frozenset(w._replace(state=self.automaton.returned(None, w.state, self)) for w in through)
        finally:
            self._exits.pop()
            self.scopes.pop()
        return ended | exits.returns

    # ------------------------------------------------------------------ relevance

    def matters(self, node: cst.CSTNode) -> bool:
        """Whether the automaton has to see something at or below a node."""
        known = self._matters.get(id(node))
        if known is None:
            if type(node) in _APART:
                known = False
            else:
                below = [self.matters(child) for child in children(node)]  # all of them, to be known later
                known = any(below) or self.automaton.concerns(node)
            self._matters[id(node)] = known
        return known

    def _jumps(self, node: cst.CSTNode) -> bool:
        """Whether ways may leave the normal course below a node."""
        key = -id(node)
        known = self._matters.get(key)
        if known is None:
            known = self._matters[key] = any(type(s) in _JUMPS for s in statements_below(node))
        return known

    def bound(self, node: cst.CSTNode) -> frozenset[str]:
        """The names that code binds, as this scope calls them."""
        known = self._bound.get(id(node))
        if known is None:
            known = self._bound[id(node)] = frozenset(bound_names(node))
        return frozenset(self.scope.key(name) for name in known)

    # ------------------------------------------------------------------ statements

    def block(self, body: Iterable[cst.CSTNode], ways: Ways) -> Ways:
        for statement in body:
            if not ways:
                break
            if type(statement) is cst.SimpleStatementLine:
                for small in statement.body:
                    ways = self._statement(small, ways)
            else:
                ways = self._statement(statement, ways)
        return ways

    def suite(self, suite: cst.BaseSuite, ways: Ways) -> Ways:
        if isinstance(suite, cst.SimpleStatementSuite):
            for small in suite.body:
                ways = self._statement(small, ways)
            return ways
        return self.block(suite.body, ways)

    def _statement(self, node: cst.CSTNode, ways: Ways) -> Ways:
        if not ways:
            return ways
        self._steps += len(ways)
        if len(ways) > MOST_WAYS or self._steps > MOST_STEPS:
            raise TooManyPaths
        handler = _STATEMENTS.get(type(node))
        if handler is None:
            return ways
        if type(node) in _COMPOUND and not self.matters(node) and not self._jumps(node):
            return self._passed_by(node, ways)
        return handler(self, node, ways)

    def _passed_by(self, node: cst.CSTNode, ways: Ways) -> Ways:
        """Nothing happens in a statement but that it may bind names."""
        names = self.bound(node)
        if not names:
            return ways
        pairs = list(_assignments(node))
        result = set()
        for way in ways:
            state = way.state
            for target, value in pairs:
                state = self.automaton.assign(target, value, state, self, True)
            result.add(Way(without(way.conditions, names), state))
        return frozenset(result)

    def _done(self, ways: Ways) -> Ways:
        return frozenset(w._replace(state=self.automaton.statement_ends(w.state)) for w in ways)

    def _bind(
        self, target: cst.CSTNode, value: cst.BaseExpression | None, ways: Ways, weak: bool = False
    ) -> Ways:
        names = frozenset(self.scope.key(name) for name in targets_of(target))
        return frozenset(
            Way(without(w.conditions, names), self.automaton.assign(target, value, w.state, self, weak))
            for w in ways
        )

    def _expr(self, node: cst.Expr, ways: Ways) -> Ways:
        ways = self._done(self.expression(node.value, ways))
        if isinstance(node.value, cst.Call) and (dotted(node.value.func) or "") in _LEAVING:
            return NOWHERE
        return ways

    def _assign(self, node: cst.Assign, ways: Ways) -> Ways:
        ways = self.expression(node.value, ways)
        for target in node.targets:
            ways = self._bind(target.target, node.value, ways)
        return self._done(ways)

    def _assign_one(self, node: cst.AnnAssign | cst.AugAssign, ways: Ways) -> Ways:
        if node.value is None:
            return ways
        ways = self.expression(node.value, ways)
        return self._done(self._bind(node.target, node.value, ways, isinstance(node, cst.AugAssign)))

    def _if(self, node: cst.If, ways: Ways) -> Ways:
        depth = len(self.guards)
        through: set[Way] = set()
        clause: cst.If | cst.Else | None = node
        texts: set[str] = set()
        while isinstance(clause, cst.If):
            yes, ways = self.branch(clause.test, ways)
            yes, ways = self._done(yes), self._done(ways)
            guards = [
                Guard(t, self.changing[-1] if self.changing else frozenset()) for t in self.atoms(clause.test)
            ]
            texts.update(g.text for g in guards)
            self.guards.extend(guards)
            through |= self.suite(clause.body, yes)
            clause = clause.orelse
        if clause is not None:
            ways = self.suite(clause.body, ways)
        del self.guards[depth:]
        return _merged(through | ways, texts)

    def _for(self, node: cst.For, ways: Ways) -> Ways:
        ways = self._done(self.expression(node.iter, ways))
        changing = self.bound(node.body) | {self.scope.key(name) for name in targets_of(node.target)}
        return self._loop(node, ways, changing, lambda w: (self._bind(node.target, node.iter, w), w))

    def _while(self, node: cst.While, ways: Ways) -> Ways:
        def begin(ways: Ways) -> tuple[Ways, Ways]:
            yes, no = self.branch(node.test, ways)
            return self._done(yes), self._done(no)

        return self._loop(node, ways, self.bound(node.body), begin)

    def _loop(
        self,
        node: cst.For | cst.While,
        ways: Ways,
        changing: frozenset[str],
        begin: Callable[[Ways], tuple[Ways, Ways]],
    ) -> Ways:
        """begin: the ways into the body, and those past the loop."""
        exits = self._exits[-1]
        exits.breaks.append(set())
        exits.continues.append(set())
        self.changing.append(changing)
        outer, self.guards = self.guards, []
        seen, frontier = set(ways), ways
        past: set[Way] = set()
        for _ in range(LOOP_ROUNDS):
            inside, outside = begin(frontier)
            past |= outside
            ends = {
                w._replace(state=self.automaton.back_edge(w.state, None, self))
                for w in self.suite(node.body, inside)
            }
            ends |= exits.continues[-1]
            exits.continues[-1].clear()
            frontier = frozenset(Way(without(w.conditions, changing), w.state) for w in ends) - seen
            if not frontier:
                break
            seen |= frontier
        else:
            past |= begin(frontier)[1]
        self.guards = outer
        self.changing.pop()
        exits.continues.pop()
        through = frozenset(past)
        if node.orelse is not None:
            through = self.suite(node.orelse.body, through)
        return through | exits.breaks.pop()

    def _jump(self, node: cst.Continue | cst.Break, ways: Ways) -> Ways:
        exits = self._exits[-1]
        if exits.breaks:
            if isinstance(node, cst.Break):
                exits.breaks[-1] |= ways
            else:
                exits.continues[-1] |= {
                    w._replace(state=self.automaton.back_edge(w.state, node, self)) for w in ways
                }
        return NOWHERE

    def _return(self, node: cst.Return, ways: Ways) -> Ways:
        if node.value is not None:
            ways = self.expression(node.value, ways)
        self._exits[-1].returns |= {
            w._replace(state=self.automaton.returned(node, w.state, self)) for w in ways
        }
        return NOWHERE

    def _raise(self, node: cst.Raise, ways: Ways) -> Ways:
        return NOWHERE

    def _assert(self, node: cst.Assert, ways: Ways) -> Ways:
        return self._done(self.branch(node.test, ways)[0])

    def _with(self, node: cst.With, ways: Ways) -> Ways:
        entered = []
        for item in node.items:
            ways = self.expression(item.item, ways)
            if item.asname is not None:
                ways = self._bind(item.asname.name, item.item, ways)
            entered.append(self.automaton.enter(item))
        ways = self.suite(node.body, self._done(ways))
        for what in reversed(entered):
            self.automaton.leave(what)
        return ways

    def _try(self, node: cst.Try | cst.TryStar, ways: Ways) -> Ways:
        exits = self._exits[-1]
        # What leaves from in here has the `finally` to pass, even where a way that left before looks the same.
        outer = exits.set_apart() if node.finalbody is not None else None
        # What is raised is taken to be raised before anything happened.
        raised = frozenset(Way(without(w.conditions, self.bound(node.body)), w.state) for w in ways)
        through = self.suite(node.body, ways)
        if node.orelse is not None:
            through = self.suite(node.orelse.body, through)
        for handler in node.handlers:
            through |= self.suite(handler.body, raised)
        if node.finalbody is None or outer is None:
            return through
        for leaving, target in zip(exits.put_back(outer), outer):
            target |= self.suite(node.finalbody.body, frozenset(leaving))
        return self.suite(node.finalbody.body, through)

    def _match(self, node: cst.Match, ways: Ways) -> Ways:
        ways = self._done(self.expression(node.subject, ways))
        through = ways
        for case in node.cases:
            entering = frozenset(Way(without(w.conditions, self.bound(case.pattern)), w.state) for w in ways)
            through |= self.suite(case.body, entering)
        return through

    # ------------------------------------------------------------------ expressions

    def expression(self, node: cst.CSTNode, ways: Ways) -> Ways:
        """The ways past an expression, what happens in it seen in the order of evaluation."""
        if not ways or not self.matters(node):
            return ways
        kind = type(node)
        if kind is cst.IfExp:
            yes, no = self.branch(node.test, ways)  # type: ignore[attr-defined]
            return self.expression(node.body, yes) | self.expression(node.orelse, no)  # type: ignore[attr-defined]
        if kind is cst.BooleanOperation:
            yes, no = self.branch(node, ways)  # type: ignore[arg-type]
            return yes | no
        if kind in _COMPREHENSIONS:
            return self._comprehension(node, ways)
        if kind is cst.NamedExpr:
            value = node.value  # type: ignore[attr-defined]
            return self._bind(node.target, value, self.expression(value, ways))  # type: ignore[attr-defined]
        for child in children(node):
            ways = self.expression(child, ways)
        return self.automaton.visit(node, ways, self) if self.automaton.concerns(node) else ways

    def _comprehension(self, node: cst.CSTNode, ways: Ways) -> Ways:
        clause: cst.CompFor | None = node.for_in  # type: ignore[attr-defined]
        while clause is not None:
            ways = self._bind(clause.target, clause.iter, self.expression(clause.iter, ways))
            clause = clause.inner_for_in
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                ways = self.expression(getattr(node, part), ways)
        return ways

    # ------------------------------------------------------------------ tests

    def branch(self, test: cst.BaseExpression, ways: Ways) -> tuple[Ways, Ways]:
        """The ways on which a test is true, and those on which it is false."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            yes, no = self.branch(test.expression, ways)
            return no, yes
        if isinstance(test, cst.BooleanOperation):
            yes, no = self.branch(test.left, ways)
            if isinstance(test.operator, cst.And):
                both, right_no = self.branch(test.right, yes)
                return both, no | right_no
            right_yes, neither = self.branch(test.right, no)
            return yes | right_yes, neither
        ways = self.expression(test, ways)
        meant = self.scope.meaning(test)
        if meant is not test:
            return self.branch(meant, ways)
        text, truth = atom(test, self.scope.text)
        yes, no = self._split(text, ways)
        return (yes, no) if truth else (no, yes)

    def _split(self, text: str, ways: Ways) -> tuple[Ways, Ways]:
        known = constant(text)
        if known is not None:
            return (ways, NOWHERE) if known else (NOWHERE, ways)
        yes, no = set(), set()
        for way in ways:
            if (text, False) not in way.conditions:
                yes.add(way._replace(conditions=way.conditions | {(text, True)}))
            if (text, True) not in way.conditions:
                no.add(way._replace(conditions=way.conditions | {(text, False)}))
        return frozenset(yes), frozenset(no)

    def atoms(self, test: cst.BaseExpression) -> list[str]:
        """The texts of the atoms of a test."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self.atoms(test.expression)
        if isinstance(test, cst.BooleanOperation):
            return [*self.atoms(test.left), *self.atoms(test.right)]
        meant = self.scope.meaning(test)
        return self.atoms(meant) if meant is not test else [atom(test, self.scope.text)[0]]


def _merged(ways: Iterable[Way], texts: Iterable[str]) -> Ways:
    """The ways without the tests that made no difference: both outcomes led to the same."""
    result = set(ways)
    for text in texts:
        for way in list(result):
            if (text, True) in way.conditions:
                rest = way.conditions - {(text, True)}
                other = way._replace(conditions=rest | {(text, False)})
                if other in result:
                    result -= {way, other}
                    result.add(way._replace(conditions=rest))
    return frozenset(result)


def _assignments(node: cst.CSTNode) -> Iterable[tuple[cst.CSTNode, cst.BaseExpression | None]]:
    """What code at and below a node assigns to what, in program order."""
    for statement in statements_below(node):
        kind = type(statement)
        if kind is cst.Assign:
            for target in statement.targets:  # type: ignore[attr-defined]
                yield target.target, statement.value  # type: ignore[attr-defined]
        elif kind in (cst.AnnAssign, cst.AugAssign):
            yield statement.target, statement.value  # type: ignore[attr-defined]
        elif kind is cst.For:
            yield statement.target, statement.iter  # type: ignore[attr-defined]


_STATEMENTS: dict[type[cst.CSTNode], Callable[[Walk, Any, Ways], Ways]] = {
    cst.Expr: Walk._expr,
    cst.Assign: Walk._assign,
    cst.AnnAssign: Walk._assign_one,
    cst.AugAssign: Walk._assign_one,
    cst.If: Walk._if,
    cst.For: Walk._for,
    cst.While: Walk._while,
    cst.Continue: Walk._jump,
    cst.Break: Walk._jump,
    cst.Return: Walk._return,
    cst.Raise: Walk._raise,
    cst.Assert: Walk._assert,
    cst.With: Walk._with,
    cst.Try: Walk._try,
    cst.TryStar: Walk._try,
    cst.Match: Walk._match,
}
