"""A workflow: what is wrong with a graph of steps, which steps begin when others end, and how it all ends.

    WAITING ── all that it waits for has ended ──> READY ──> SUCCEEDED, FAILED or CANCELLED
       │                                             └────> HELD (its sub-workflows run) ──> SUCCEEDED or FAILED
       ├── its condition is not met ──> SKIPPED
       └── what it needs has failed ──> BLOCKED

A step of a workflow that is undone goes on from SUCCEEDED: COMPENSATING, then COMPENSATED, or STUCK.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


class StepState(StrEnum):
    """The state of a step. The values are stored."""

    WAITING = "waiting"
    #: Its message is published.
    READY = "ready"
    #: Its message was handled, or it has none; a sub-workflow runs.
    HELD = "held"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: Its condition is not met.
    SKIPPED = "skipped"
    #: Something that it waits for has failed.
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    #: Its compensation has failed.
    STUCK = "stuck"


class WorkflowState(StrEnum):
    """The state of a workflow. The values are stored."""

    RUNNING = "running"
    #: It is cancelled, or its deadline has passed: nothing more begins, and what runs is asked to end.
    STOPPING = "stopping"
    COMPENSATING = "compensating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunsOn(StrEnum):
    """After which ends of the steps before it a step runs. The values are stored."""

    SUCCESS = "success"
    FAILURE = "failure"
    #: However they have ended.
    END = "end"


GOING: Final = frozenset({StepState.READY, StepState.HELD})
OPEN: Final = GOING | {StepState.WAITING}
#: What makes a workflow fail.
FAULTS: Final = frozenset({StepState.FAILED, StepState.CANCELLED})
#: What keeps steps after it from running.
OBSTACLES: Final = FAULTS | {StepState.BLOCKED}
#: A workflow in one of these states has ended.
DONE: Final = frozenset({WorkflowState.SUCCEEDED, WorkflowState.FAILED, WorkflowState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """A step as the graph of a workflow has it."""

    name: str
    after: tuple[str, ...] = ()
    runs_on: RunsOn = RunsOn.SUCCESS
    #: The queue of its message; blank for a sub-workflow.
    queue: str = ""
    #: The name of the sub-workflow.
    workflow: str = ""
    #: The step for each item of whose result it runs; "*": a function says the items; None: it runs once.
    for_each: str | None = None
    #: The queue of the message that undoes it; blank for none.
    compensate: str = ""
    #: Whether functions of the declaration say the condition, and the body.
    has_condition: bool = False
    has_body: bool = False
    #: Options of its message.
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """The steps of a workflow, each after those that it waits for."""

    rules: tuple[StepRule, ...]

    @cached_property
    def by_name(self) -> dict[str, StepRule]:
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def followers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {rule.name: [] for rule in self.rules}
        for rule in self.rules:
            for name in rule.after:
                found[name].append(rule.name)
        return found

    @cached_property
    def layers(self) -> dict[str, int]:
        """How many steps are before each one, on the longest way."""
        found: dict[str, int] = {}
        for name in self.order:
            found[name] = 1 + max((found[each] for each in self.by_name[name].after), default=-1)
        return found

    @cached_property
    def order(self) -> list[str]:
        """The names, each after those that it waits for; otherwise as they are declared."""
        places = {rule.name: place for place, rule in enumerate(self.rules)}
        sorter = TopologicalSorter({rule.name: rule.after for rule in self.rules})
        sorter.prepare()
        found: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=places.__getitem__)
            found += ready
            sorter.done(*ready)
        return found

    def after(self, names: Iterable[str]) -> set[str]:
        """Return all steps that wait for these, directly or not."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            new = set(self.followers[waiting.pop()]) - found
            found |= new
            waiting += new
        return found


def problems_of(rules: Sequence[StepRule]) -> Iterator[str]:
    """Yield what is wrong with a graph, each a sentence."""
    if not rules:
        yield "It has no steps; declare one."
    names = Counter(rule.name for rule in rules)
    for name, number in names.items():
        if number > 1:
            yield f"It has {number} steps with the name {name!r}; rename or remove one."
    for rule in rules:
        for name in rule.after:
            if name not in names:
                yield f"The step {rule.name!r} is after {name!r}, which is no step of it; correct the name."
    if all(name in names for rule in rules for name in rule.after):
        try:
            TopologicalSorter({rule.name: rule.after for rule in rules}).prepare()
        except CycleError as error:
            circle = " -> ".join(map(repr, reversed(error.args[1])))
            yield f"Its steps wait for each other in a circle: {circle}; remove one of these dependencies."


def decided(rule: StepRule, before: Collection[StepState]) -> StepState:
    """Return what becomes of a step when all that it waits for has ended in these states.

    A step is skipped if all that it waits for was skipped.
    """
    if any(state in OBSTACLES for state in before):
        return StepState.BLOCKED if rule.runs_on is RunsOn.SUCCESS else StepState.READY
    if rule.runs_on is RunsOn.FAILURE:
        return StepState.SKIPPED
    is_skipped = bool(before) and all(state is StepState.SKIPPED for state in before)
    return StepState.SKIPPED if is_skipped else StepState.READY


class Progress(Protocol):
    """How far the steps of one workflow have come, locked against others."""

    def lower(self, waits: Mapping[str, int]) -> Collection[str]:
        """Lower for each of these steps how much it waits for; return those that wait for nothing any more."""

    def states(self, names: Collection[str]) -> Mapping[str, StepState]:
        """Return the states of steps."""

    def settle(self, states: Mapping[str, StepState]) -> None:
        """Write the states of steps that have not begun."""

    def start(self, names: Sequence[str]) -> Mapping[str, StepState]:
        """Begin steps; return the states of those that have ended at once, which are written."""


def advance(graph: Graph, ended: Collection[str], progress: Progress, *, goes_on: bool) -> int:
    """Begin what may begin now that these steps have ended; return how many steps have ended, with others.

    If the workflow does not go on, what would begin is cancelled.
    """
    total = 0
    while ended:
        total += len(ended)
        free = progress.lower(Counter(name for each in ended for name in graph.followers[each]))
        ended = begun(graph, free, progress, goes_on=goes_on)
    return total


def begin(graph: Graph, progress: Progress) -> int:
    """Begin the steps that wait for nothing; return how many steps have ended at once, with others."""
    first = [rule.name for rule in graph.rules if not rule.after]
    return advance(graph, begun(graph, first, progress, goes_on=True), progress, goes_on=True)


def begun(graph: Graph, free: Collection[str], progress: Progress, *, goes_on: bool) -> list[str]:
    """Decide about steps that wait for nothing, and begin them; return those that have ended at once."""
    if not free:
        return []
    rules = [graph.by_name[name] for name in free]
    states = progress.states({name for rule in rules for name in rule.after})
    found = {rule.name: decided(rule, [states[name] for name in rule.after]) for rule in rules}
    ready = [name for name, state in found.items() if state is StepState.READY]
    ended = {name: state for name, state in found.items() if state is not StepState.READY}
    if not goes_on:
        ended |= dict.fromkeys(ready, StepState.CANCELLED)
    if ended:
        progress.settle(ended)
    at_once = progress.start(ready) if ready and goes_on else {}
    return [*ended, *at_once]


def outcome(states: Iterable[StepState], *, was_stopped: bool) -> WorkflowState:
    """Return how a workflow has ended of whose steps none is open."""
    if was_stopped:
        return WorkflowState.CANCELLED
    return WorkflowState.FAILED if any(state in FAULTS for state in states) else WorkflowState.SUCCEEDED


def next_to_undo(graph: Graph, states: Mapping[str, StepState]) -> str | None:
    """Return the step to undo next: the last one that has succeeded and can be undone; None if none is left."""
    for name in reversed(graph.order):
        if graph.by_name[name].compensate and states[name] is StepState.SUCCEEDED:
            return name
    return None


@dataclass(frozen=True, slots=True)
class Again:
    """What a workflow does again that has failed, or was cancelled."""

    #: How many steps each of these waits for.
    waits: Mapping[str, int]

    @property
    def first(self) -> list[str]:
        """The steps that begin now."""
        return [name for name, wait in self.waits.items() if not wait]


def again(graph: Graph, states: Mapping[str, StepState]) -> Again:
    """Return what a retry runs: what has not succeeded, and what depends on that. What has succeeded is kept."""
    lost = OBSTACLES | {StepState.COMPENSATED, StepState.COMPENSATING, StepState.STUCK}
    failed = [name for name in graph.order if states[name] in lost]
    later = {name for name in graph.after(failed) if states[name] in {*lost, StepState.SKIPPED}}
    redone = later.union(failed)
    return Again(
        {
            name: sum(each in redone or states[each] in OPEN for each in graph.by_name[name].after)
            for name in graph.order
            if name in redone
        }
    )


def ended_items(failed: int) -> StepState:
    """Return the state of a step all of whose items have ended, of which so many have not succeeded."""
    return StepState.FAILED if failed else StepState.SUCCEEDED
