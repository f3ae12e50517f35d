"""What a step knows: the input of its workflow, what the steps before it have returned, and its item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.engine.decisions.workflows import StepState
from django_mq.errors import UnknownWorkflow
from django_mq.stores.connections import apart_from_event_loops
from django_mq.stores.registry import shared_store
from django_mq.workflows.results import Results
from django_mq.workflows.statements import StepStatements
from django_mq.workflows.values import value_in

if TYPE_CHECKING:
    from uuid import UUID

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.workflows.declared import WorkflowDeclaration
    from django_mq.workflows.statements import RunRow, StepRow


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

    @apart_from_event_loops
    def start(self, workflow: WorkflowDeclaration, input: Any = None, *, key: str = "") -> UUID:  # noqa: A002 - what it is
        """Start a sub-workflow; the followers of the step wait for it, too. Return its id.

        A step that runs again does not start it twice: the one of this name and ``key`` is returned. Raises what
        ``Workflow.start`` raises.
        """
        from django_mq.workflows.starter import graft  # noqa: PLC0415 - models; an app may not be installed

        return graft(self.statements, self.step, workflow, input, key=key)


def step_of(message: ReceivedMessage, *, using: str | None = None) -> StepContext:
    """Return the step of a workflow whose message a handler runs. Raises UnknownWorkflow for another message."""
    found = find_step(message.id, using=using)
    if found is None:
        raise UnknownWorkflow(f"Message {message.id} is no step of a workflow; start one, or do not ask.")
    return found


@apart_from_event_loops
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
