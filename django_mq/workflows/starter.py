"""Write a run with its steps, and begin it, in the transaction that is open."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError

from django_mq import conf
from django_mq.delivery import validation
from django_mq.delivery.queues import check_declared
from django_mq.engine.decisions.workflows import WorkflowState
from django_mq.errors import InvalidMessage, StoreError, WorkflowRefused, WorkflowRuns, shown
from django_mq.stores.clock import clock
from django_mq.stores.registry import database_store
from django_mq.workflows.graphs import graph_in
from django_mq.workflows.locked import begin_run, new_run, start_child
from django_mq.workflows.models import WorkflowRun
from django_mq.workflows.registry import declared
from django_mq.workflows.statements import StepStatements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.workflows.declared import WorkflowDeclaration
    from django_mq.workflows.statements import StepRow


def start(
    workflow: WorkflowDeclaration,
    given: Any,
    *,
    key: str | None,
    deadline: timedelta | float | datetime | None,
    using: str | None,
) -> UUID:
    """Start a run, and return its id: see ``Workflow.start``."""
    alias = using or conf.load().DATABASE
    store = database_store(alias, "workflows")
    row = new_run(workflow, given)
    for queue in set(_queues(workflow)):
        check_declared(queue, using=alias)
    if key is not None:
        row |= {"key": hash_of(workflow.name, key), "label": validation.text(key, "key")}
    row["deadline_at"] = _moment(deadline)
    statements = StepStatements(store)
    with store.database.transaction():
        _insert(statements, row, alias)
        begin_run(statements, row, raises=True)
    return row["id"]  # type: ignore[no-any-return] # as it was made


def hash_of(name: str, key: str) -> str:
    """Return what is unique among the runs of all workflows."""
    return hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=32).hexdigest()


def _queues(workflow: WorkflowDeclaration) -> Iterator[str]:
    """Yield the queues of a workflow and of its sub-workflows. A workflow cannot be a step of itself."""
    for rule in graph_in(workflow.graph).rules:
        yield from filter(None, (rule.queue, rule.compensate))
        if rule.workflow:
            yield from _queues(declared(rule.workflow))


def _moment(deadline: timedelta | float | datetime | None) -> datetime | None:
    if deadline is None:
        return None
    from datetime import datetime, timedelta  # noqa: PLC0415 - otherwise names of types

    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidMessage(f"deadline is {shown(deadline)}, which has no time zone; give an aware time.")
        return deadline
    seconds = validation.moment(None, deadline, "deadline", "deadline")[1]
    return clock.now() + timedelta(seconds=seconds or 0.0)


def _insert(statements: StepStatements, row: dict[str, Any], alias: str) -> None:
    """Write the row of a run. Raises WorkflowRuns if another one has its key."""
    if row.get("key") is None:
        statements.insert_run(row)
        return
    try:
        with statements.store.database.transaction():
            statements.insert_run(row)
    except (StoreError, IntegrityError) as error:
        if not isinstance(error, IntegrityError) and not isinstance(error.__cause__, IntegrityError):
            raise
        holder = WorkflowRun.objects.using(alias).filter(key_name=row["key"]).values_list("id", flat=True).first()
        raise WorkflowRuns(
            f"The workflow {row['name']!r} with the key {row['label']!r} runs already: {holder}. Wait for its end,"
            " or cancel it.",
            workflow_id=holder,
        ) from None


def graft(
    statements: StepStatements, step: StepRow, workflow: WorkflowDeclaration, given: Any, *, key: str
) -> UUID:
    """Start a sub-workflow from the handler of a step: see ``StepContext.start``.

    The row of the step is locked, and not the whole workflow: the transaction of the handler may last.
    """
    with statements.store.database.transaction():
        changed = statements.expect_child(step.id, 1)
        run = statements.run(step.run_id)
        if not changed or run is None or run.state is not WorkflowState.RUNNING:
            raise WorkflowRefused(
                f"The step {step.name!r} of workflow {step.run_id} runs no more, so it starts nothing."
            )
        label = validation.text(key, "key") if key else ""
        for each in WorkflowRun.objects.using(statements.store.alias).filter(parent=step.id):
            if each.name == workflow.name and each.label == label:
                statements.expect_child(step.id, -1)
                return each.id
        return start_child(statements, workflow, given, parent=step, label=label)
