"""The rules of workflows: any order of ends gives one result, nothing is stuck, and a retry runs what is left."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.workflows import (
    FAULTS,
    GOING,
    OPEN,
    Graph,
    RunsOn,
    StepRule,
    StepState,
    WorkflowState,
    advance,
    again,
    begin,
    begun,
    decided,
    ended_items,
    next_to_undo,
    outcome,
    problems_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = [f"s{number}" for number in range(draw(st.integers(1, 8)))]
    rules = [
        StepRule(
            name=name,
            after=tuple(draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3))) if place else (),
            runs_on=draw(st.sampled_from(RunsOn)),
            compensate=draw(st.sampled_from(["", "undo"])),
        )
        for place, name in enumerate(names)
    ]
    return Graph(tuple(draw(st.permutations(rules))))


class Rows:
    """A workflow in memory: what the statements do in a database."""

    def __init__(self, graph: Graph, ends: Mapping[str, StepState]) -> None:
        self.graph, self.ends = graph, ends
        self.known = dict.fromkeys(graph.by_name, StepState.WAITING)
        self.waits = {rule.name: len(rule.after) for rule in graph.rules}
        self.open = len(graph.rules)

    def lower(self, waits: Mapping[str, int]) -> Collection[str]:
        for name, number in waits.items():
            self.waits[name] -= number
        return [name for name in waits if not self.waits[name] and self.known[name] is StepState.WAITING]

    def states(self, names: Collection[str]) -> Mapping[str, StepState]:
        return {name: self.known[name] for name in names}

    def settle(self, states: Mapping[str, StepState]) -> None:
        assert all(self.known[name] is StepState.WAITING for name in states)
        self.known |= states

    def start(self, names: Sequence[str]) -> Mapping[str, StepState]:
        at_once = {name: self.ends[name] for name in names if self.ends[name] is StepState.SKIPPED}
        self.known |= dict.fromkeys(names, StepState.READY) | at_once
        return at_once

    def run(self, random: Random, ended: int) -> None:
        """Let steps end, in any order, until none is left."""
        self.open -= ended
        while going := sorted(name for name, state in self.known.items() if state in GOING):
            chosen = random.sample(going, random.randint(1, len(going)))
            self.known |= {name: self.ends[name] for name in chosen}
            self.open -= advance(self.graph, chosen, self, goes_on=True)


def expected(graph: Graph, ends: Mapping[str, StepState]) -> dict[str, StepState]:
    """The plain reading of the rules: each step in turn."""
    found: dict[str, StepState] = {}
    for name in graph.order:
        state = decided(graph.by_name[name], [found[each] for each in graph.by_name[name].after])
        found[name] = ends[name] if state is StepState.READY else state
    return found


ENDS = st.sampled_from([StepState.SUCCEEDED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED])


@given(graphs(), st.lists(ENDS, min_size=8, max_size=8), st.integers())
def test_any_order_of_ends_gives_the_same_result_and_a_retry_ends_well(
    graph: Graph, given_ends: list[StepState], seed: int
) -> None:
    assert not list(problems_of(graph.rules))
    random = Random(seed)
    ends = dict(zip(sorted(graph.by_name), given_ends, strict=False))
    rows = Rows(graph, ends)
    rows.run(random, begin(graph, rows))

    assert rows.known == expected(graph, ends)
    assert not rows.open
    assert not OPEN & set(rows.known.values())
    failed = any(state in FAULTS for state in rows.known.values())
    result = outcome(rows.known.values(), was_stopped=False)
    assert result is (WorkflowState.FAILED if failed else WorkflowState.SUCCEEDED)

    succeeded = {name for name, state in rows.known.items() if state is StepState.SUCCEEDED}
    redone = again(graph, rows.known)
    assert not succeeded & redone.waits.keys()
    rows.ends = dict.fromkeys(ends, StepState.SUCCEEDED)
    rows.known |= dict.fromkeys(redone.waits, StepState.WAITING)
    rows.waits |= redone.waits
    rows.open = len(redone.waits)
    at_once = begun(graph, redone.first, rows, goes_on=True)
    rows.run(random, advance(graph, at_once, rows, goes_on=True))

    assert not rows.open
    assert outcome(rows.known.values(), was_stopped=False) is WorkflowState.SUCCEEDED
    assert set(rows.known.values()) <= {StepState.SUCCEEDED, StepState.SKIPPED}


@given(graphs())
def test_what_has_succeeded_is_undone_behind_all_that_came_after_it(graph: Graph) -> None:
    states = dict.fromkeys(graph.by_name, StepState.SUCCEEDED)
    undone: list[str] = []
    while (name := next_to_undo(graph, states)) is not None:
        assert not graph.after([name]) & {each for each in graph.by_name if graph.by_name[each].compensate} - {
            *undone
        }
        undone.append(name)
        states[name] = StepState.COMPENSATED
    assert sorted(undone) == sorted(rule.name for rule in graph.rules if rule.compensate)


def test_a_graph_that_cannot_be_is_told_in_a_sentence() -> None:
    wrong = {
        "It has no steps": [],
        "2 steps with the name 'a'": [StepRule(name="a"), StepRule(name="a")],
        "after 'b', which is no step": [StepRule(name="a", after=("b",))],
        "in a circle: 'a' -> 'b' -> 'a'": [StepRule(name="a", after=("b",)), StepRule(name="b", after=("a",))],
    }
    for words, rules in wrong.items():
        assert words in " ".join(problems_of(rules)).replace("'b' -> 'a' -> 'b'", "'a' -> 'b' -> 'a'")


def test_a_workflow_that_is_stopped_begins_nothing_more() -> None:
    graph = Graph((StepRule(name="a"), StepRule(name="b", after=("a",)), StepRule(name="c", after=("b",))))
    rows = Rows(graph, dict.fromkeys("abc", StepState.SUCCEEDED))
    begin(graph, rows)
    rows.known["a"] = StepState.SUCCEEDED

    assert advance(graph, ["a"], rows, goes_on=False) == 3
    assert rows.known == {"a": StepState.SUCCEEDED, "b": StepState.CANCELLED, "c": StepState.BLOCKED}
    assert outcome(rows.known.values(), was_stopped=True) is WorkflowState.CANCELLED
    assert graph.layers == {"a": 0, "b": 1, "c": 2}
    assert (ended_items(0), ended_items(2)) == (StepState.SUCCEEDED, StepState.FAILED)
