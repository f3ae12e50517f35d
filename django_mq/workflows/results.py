"""What the steps of a run have returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.workflows import StepState
from django_mq.stores.connections import apart_from_event_loops
from django_mq.workflows.graphs import graph_in
from django_mq.workflows.values import value_in

if TYPE_CHECKING:
    from django_mq.workflows.statements import RunRow, StepRow, StepStatements


class Results(Mapping[str, Any]):
    """What the steps of a run have returned, by name; read when asked for. A step that was not run has None.

    A step that runs for each item has a list, with None for an item that has failed. A sub-workflow has the
    results of its last steps.
    """

    def __init__(self, statements: StepStatements, run: RunRow) -> None:
        self._statements = statements
        self._run = run
        self._known: dict[str, Any] = {}

    @cached_property
    def input(self) -> Any:
        """What the workflow was started with."""
        return value_in(self._run.input)

    def __getitem__(self, name: str) -> Any:
        """Return what a step has returned. Raises KeyError for a name that no step has."""
        if name not in graph_in(self._run.graph).by_name:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    @apart_from_event_loops
    def _read(self, name: str) -> Any:
        return result_of(self._statements, self._statements.steps(self._run.id, [name])[0])

    def __iter__(self) -> Iterator[str]:
        return iter(graph_in(self._run.graph).by_name)

    def __len__(self) -> int:
        return len(graph_in(self._run.graph).rules)


def result_of(statements: StepStatements, step: StepRow) -> Any:
    """Return what a step has returned; None if it has not."""
    if step.items is not None:
        return [_single(statements, each) for each in statements.items(step.run_id, step.name)]
    return _single(statements, step)


def _single(statements: StepStatements, step: StepRow) -> Any:
    if step.result is not None:
        return value_in(step.result)
    if step.state is not StepState.SUCCEEDED:
        return None
    children = statements.runs_of([step.id])
    return output_of(statements, children[-1]) if children else None


def output_of(statements: StepStatements, run: RunRow) -> dict[str, Any]:
    """Return the results of the last steps of a run, by name."""
    graph = graph_in(run.graph)
    last = [name for name, followers in graph.followers.items() if not followers]
    return {step.name: result_of(statements, step) for step in statements.steps(run.id, last)}
