"""What a step knows: the input of its workflow, what the steps before it have returned, and its item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.workflows import StepState
from django_mq.errors import UnknownWorkflow
from django_mq.stores.registry import shared_store
from django_mq.workflows.graphs import graph_in
from django_mq.workflows.statements import StepStatements
from django_mq.workflows.values import value_in

if TYPE_CHECKING:
    from uuid import UUID

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.workflows.declared import Workflow
    from django_mq.workflows.statements import RunRow, StepRow


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
            self._known[name] = result_of(self._statements, self._statements.steps(self._run.id, [name])[0])
        return self._known[name]

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


@dataclass(frozen=True, eq=False)
class StepContext:
    """The step that a handler runs: ``step_of(message)`` returns it."""

    run: RunRow
    step: StepRow
    statements: StepStatements

    @property
    def workflow_id(self) -> UUID:
        """The id of the run."""
        return self.run.id

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.step.name

    @property
    def number(self) -> int | None:
        """Which item it is for, from 0; None if the step runs once."""
        return None if self.step.number < 0 else self.step.number

    @property
    def item(self) -> Any:
        """The item that it is for; None if the step runs once."""
        return value_in(self.step.item)

    @property
    def input(self) -> Any:
        """What the workflow was started with."""
        return self.results.input

    @cached_property
    def results(self) -> Results:
        """What the other steps have returned, by name; read when asked for."""
        return Results(self.statements, self.run)

    @property
    def is_compensation(self) -> bool:
        """Whether the message is to undo the step."""
        return self.step.state is StepState.COMPENSATING

    @property
    def result(self) -> Any:
        """What the step has returned, for its compensation."""
        return value_in(self.step.result)

    def start(self, workflow: Workflow, input: Any = None, *, key: str = "") -> UUID:  # noqa: A002 - what it is
        """Start a sub-workflow; the followers of the step wait for it, too. Return its id.

        A step that runs again does not start it twice: the one of this name and ``key`` is returned. Raises what
        ``Workflow.start`` raises.
        """
        from django_mq.workflows.starter import graft  # noqa: PLC0415 - models; an app may not be installed

        return graft(self, workflow, input, key=key)


def step_of(message: ReceivedMessage, *, using: str | None = None) -> StepContext:
    """Return the step of a workflow whose message a handler runs. Raises UnknownWorkflow for another message."""
    found = find_step(message.id, using=using)
    if found is None:
        raise UnknownWorkflow(f"Message {message.id} is no step of a workflow; start one, or do not ask.")
    return found


def find_step(message_id: UUID, *, using: str | None = None) -> StepContext | None:
    """Return the step of a message; None if it has none."""
    store = shared_store(using or conf.load().DATABASE)
    if not store.features.durable:
        return None
    statements = StepStatements(store)
    for step in statements.of_messages([message_id]):
        run = statements.run(step.run_id)
        if run is not None:
            return StepContext(run, step, statements)
    return None
