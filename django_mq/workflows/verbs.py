"""Cancel a workflow, run again what has failed of one, and delete one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError

from django_mq import conf
from django_mq.delivery.operator import verbs
from django_mq.engine.decisions.workflows import DONE, WorkflowState
from django_mq.errors import StoreError, UnknownWorkflow, WorkflowRefused, WorkflowRuns, shown
from django_mq.stores.registry import shared_store
from django_mq.workflows.locked import LockedRun, locked
from django_mq.workflows.models import StepRun, WorkflowRun
from django_mq.workflows.results import Results
from django_mq.workflows.starter import hash_of
from django_mq.workflows.statements import StepStatements

if TYPE_CHECKING:
    from collections.abc import Collection

#: The most messages that are cancelled at once.
MOST: int = 1000


def cancel_workflow(workflow_id: UUID | str, *, reason: str = "", using: str | None = None) -> None:
    """Stop a workflow: nothing more begins, its messages are cancelled, and what has succeeded is undone.

    Handlers that run are asked to end, after the commit. Raises UnknownWorkflow, and WorkflowRefused for a
    workflow that has ended.
    """
    statements = _statements(using)
    with statements.store.database.transaction():
        run = _locked(statements, workflow_id)
        if run.row.state in DONE or run.row.state is WorkflowState.COMPENSATING:
            raise WorkflowRefused(f"Workflow {run.row.id} cannot be cancelled: it is {run.row.state.value}.")
        stopped = run.stop(WorkflowState.CANCELLED, reason or "It was cancelled.")
    cancel_later(statements, stopped)


def retry_workflow(workflow_id: UUID | str, *, using: str | None = None) -> None:
    """Run again what has not succeeded of a workflow that has failed, or was cancelled.

    What has succeeded is kept, unless it was undone. It has no deadline then. Raises UnknownWorkflow;
    WorkflowRefused for a workflow that runs, has succeeded, or is a step of another one; and WorkflowRuns if
    another one has its unique key now.
    """
    statements = _statements(using)
    with statements.store.database.transaction():
        run = _locked(statements, workflow_id)
        if run.row.parent_id is not None:
            raise WorkflowRefused(f"Workflow {run.row.id} is a step of another one; retry {run.row.root}.")
        if run.row.state not in {WorkflowState.FAILED, WorkflowState.CANCELLED}:
            raise WorkflowRefused(f"Workflow {run.row.id} cannot be retried: it is {run.row.state.value}.")
        _take_key(statements, run)
        statements.write_run(run.row.id, deadline_at=None)
        replaced = run.retry()
    cancel_later(statements, replaced)


def delete_workflow(workflow_id: UUID | str, *, using: str | None = None) -> None:
    """Delete a workflow that has ended, with its sub-workflows and the results of their steps.

    Dead letters of its steps stay in their queues. Raises UnknownWorkflow, and WorkflowRefused for a workflow that
    runs, or is a step of another one.
    """
    statements = _statements(using)
    with statements.store.database.transaction():
        run = _locked(statements, workflow_id)
        if run.row.parent_id is not None:
            raise WorkflowRefused(f"Workflow {run.row.id} is a step of another one; delete {run.row.root}.")
        if run.row.state not in DONE:
            raise WorkflowRefused(
                f"Workflow {run.row.id} cannot be deleted: it is {run.row.state.value}. Wait for its end."
            )
    # A workflow that has ended begins again by a retry only, which an operator asks for.
    alias, ended = statements.store.alias, [state.value for state in DONE]
    WorkflowRun.objects.using(alias).filter(pk=run.row.id, state__in=ended).delete()


def workflow_results(workflow_id: UUID | str, *, using: str | None = None) -> Results:
    """Return what the steps of a workflow have returned until now, by name. Raises UnknownWorkflow."""
    statements = _statements(using)
    row = statements.run(found_id(workflow_id))
    if row is None:
        raise _unknown(workflow_id)
    return Results(statements, row)


def _take_key(statements: StepStatements, run: LockedRun) -> None:
    [(label,)] = WorkflowRun.objects.using(statements.store.alias).filter(pk=run.row.id).values_list("label")
    if not label:
        return
    try:
        with statements.store.database.transaction():
            statements.write_run(run.row.id, key_name=hash_of(run.row.name, label))
    except (StoreError, IntegrityError) as error:
        if not isinstance(error, IntegrityError) and not isinstance(error.__cause__, IntegrityError):
            raise
        raise WorkflowRuns(f"Another workflow {run.row.name!r} with the key {label!r} runs now.") from None


def cancel_later(statements: StepStatements, message_ids: Collection[UUID]) -> None:
    """Cancel messages after the commit: workers have locked those that end now, and wait for this transaction."""
    if message_ids:
        database: Any = statements.store.database
        database.after_commit(partial(cancel_now, list(message_ids), statements.store.alias))


def cancel_now(message_ids: list[UUID], using: str) -> None:
    """Cancel messages that exist, also those that workers run."""
    for start in range(0, len(message_ids), MOST):
        verbs.cancel(message_ids[start : start + MOST], running=True, using=using)


def left_to_cancel(run_ids: Collection[UUID], using: str) -> list[UUID]:
    """Return the messages of steps of these runs that have not ended."""
    steps = StepRun.objects.using(using).filter(run__in=run_ids, state=StepRun.Status.READY)
    return [each for each in steps.values_list("message_id", flat=True) if each is not None]


def _statements(using: str | None) -> StepStatements:
    return StepStatements(shared_store(using or conf.load().DATABASE))


def _locked(statements: StepStatements, workflow_id: UUID | str) -> LockedRun:
    row = statements.run(found_id(workflow_id)) if statements.store.features.durable else None
    found = None if row is None else locked(statements, row.id, row.root)
    if found is None:
        raise _unknown(workflow_id)
    return found


def found_id(given: UUID | str) -> UUID:
    """Return the id of a workflow. Raises UnknownWorkflow for what is no id."""
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (ValueError, TypeError, AttributeError):
        raise _unknown(given) from None


def _unknown(given: object) -> UnknownWorkflow:
    return UnknownWorkflow(
        f"There is no workflow {shown(given)}; correct the id. It is deleted some time after its end."
    )
