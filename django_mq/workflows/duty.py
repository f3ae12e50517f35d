"""Duties of the maintenance: deadlines, ends that were not told, and old rows."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Exists, OuterRef

from django_mq import conf
from django_mq.engine.decisions.workflows import DONE, StepState, WorkflowState
from django_mq.engine.options import Option
from django_mq.models import Message
from django_mq.models.deletion import delete_first
from django_mq.models.times import UTCNow
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from django_mq.workflows.ends import StepEnd, end_locked
from django_mq.workflows.locked import locked
from django_mq.workflows.models import StepRun, WorkflowRun
from django_mq.workflows.statements import StepStatements
from django_mq.workflows.verbs import cancel_later, cancel_now, left_to_cancel

if TYPE_CHECKING:
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.workflows")

DAYS: Final = Option(
    name="WORKFLOWS_DAYS",
    type="int",
    default=30,
    least=1,
    most=3650,
    help="Days after which a workflow that has ended is deleted.",
)
MISSING: Final = "Its message is gone, and its end was not told."
LATE: Final = "It has passed its deadline."


def _now() -> Any:
    return UTCNow() + clock.offset


def stop_late(store: Store, limit: int) -> int:
    """Stop workflows that have passed their deadlines; return how many."""
    if not store.features.durable:
        return 0
    runs = WorkflowRun.objects.using(store.alias)
    late = runs.filter(deadline_at__lte=_now(), state=WorkflowState.RUNNING.value).order_by("deadline_at")
    found = list(late.values_list("id", "root")[:limit])
    statements = StepStatements(shared_store(store.alias))
    for id_, root in found:
        with statements.store.database.transaction():
            run = locked(statements, id_, root)
            stopped = [] if run is None else run.stop(WorkflowState.FAILED, LATE)
        cancel_later(statements, stopped)
    return len(found)


def mend(store: Store, limit: int) -> int:
    """Write the ends of steps whose messages are gone, and cancel again what was to end; return how many."""
    if not store.features.durable:
        return 0
    there = Message.objects.filter(message_id=OuterRef("message_id"))
    going = [StepState.READY.value, StepState.COMPENSATING.value]
    steps = StepRun.objects.using(store.alias).filter(state__in=going, message_id__isnull=False)
    lost = list(steps.filter(~Exists(there)).order_by("id").values_list("id", "message_id", "run__root")[:limit])
    statements = StepStatements(shared_store(store.alias))
    for id_, message_id, root in lost:
        assert message_id is not None  # noqa: S101 - the filter says so
        logger.warning("The end of message %s of a workflow was not told", message_id)
        with statements.store.database.transaction():
            end_locked(statements, root, id_, message_id, StepEnd(StepState.FAILED, None, MISSING, ""))
    runs = WorkflowRun.objects.using(store.alias).filter(state=WorkflowState.STOPPING.value)
    cancel_now(left_to_cancel([*runs.values_list("id", flat=True)[:limit]], store.alias), store.alias)
    return len(lost)


def prune(store: Store, limit: int) -> int:
    """Delete workflows some time after their ends, with all that belongs to them; return how many."""
    if not store.features.durable:
        return 0
    before = _now() - timedelta(days=DAYS.value_in(conf.load()))
    runs = WorkflowRun.objects.using(store.alias).filter(parent=None, state__in=[each.value for each in DONE])
    return delete_first(runs.filter(ended_at__lt=before).order_by("ended_at"), limit)
