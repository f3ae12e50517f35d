"""Members whose messages are gone without an end being told do not let their batch wait for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.utils import timezone

from django_mq.api import batch, batch_state, publish_many
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.batches.reconcile import find, reconcile
from django_mq.engine.decisions.batches import MISSING_FOR, RUNNING_FOR, BatchCounts
from django_mq.models import History, Message, WorkerSession
from django_mq.stores.clock import clock
from django_mq.stores.registry import MEMORY, private_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

ACCEPTED, DEAD, CANCELLED = History.Outcome.ACCEPTED, History.Outcome.DEAD, History.Outcome.CANCELLED


@pytest.fixture
def later(alias: str) -> Iterator[Callable[[timedelta], int]]:
    """Return a function that moves the clock and reconciles; it returns how many members have changed."""
    before = clock.offset

    def look(by: timedelta) -> int:
        clock.offset += by
        return reconcile(shared_store(alias), 100)

    yield look
    clock.offset = before


def a_batch(alias: str, number: int) -> MessageBatch:
    with batch("import", on_complete=("told", "complete"), using=alias) as made:
        publish_many([("parts", body) for body in range(number)], using=alias)
    return MessageBatch.objects.using(alias).get(pk=made.id)


def past(alias: str, message_id: UUID, outcome: int, **values: Any) -> None:
    times = dict.fromkeys(("published_at", "ready_at", "finished_at"), timezone.now())
    given = {"queue_name": "parts", "priority": 4, "attempts": 0, "outcome": outcome}
    History.objects.using(alias).create(message_id=message_id, **times, **given, **values)


def members(alias: str) -> list[BatchMember]:
    return list(BatchMember.objects.using(alias).order_by("id"))


def test_members_whose_messages_were_deleted_end_after_a_while(
    alias: str, later: Callable[[timedelta], int]
) -> None:
    made = a_batch(alias, 5)
    gone = members(alias)[:4]
    for member, outcome in zip(gone, (ACCEPTED, DEAD, CANCELLED, None), strict=True):
        if outcome is not None:
            past(alias, member.message_id, outcome)
    Message.objects.using(alias).filter(message_id__in=[each.message_id for each in gone]).delete()

    assert later(timedelta(0)) == 0
    assert list(find(alias)) == []
    assert later(MISSING_FOR + timedelta(seconds=1)) == 4
    assert batch_state(made.pk, using=alias).counts == BatchCounts(1, 1, 1, 2)
    [finding] = find(alias)
    assert "4 members had no message any more" in finding.sentence

    Message.objects.using(alias).filter(queue__name="parts").delete()
    assert [later(MISSING_FOR + timedelta(seconds=1)) for _ in range(3)] == [0, 1, 0]
    assert batch_state(made.pk, using=alias).state.value == "failed"
    assert Message.objects.using(alias).filter(queue__name="told").count() == 1
    assert MessageBatch.objects.using(alias).get().vanished == 5


def test_a_message_that_is_back_is_not_missed(alias: str, later: Callable[[timedelta], int]) -> None:
    made = a_batch(alias, 1)
    [row] = Message.objects.using(alias).filter(queue__name="parts")
    row.delete()
    assert later(timedelta(0)) == 0
    row.save(using=alias, force_insert=True)
    assert later(MISSING_FOR + timedelta(seconds=1)) == 0
    assert members(alias)[0].missing_at is None
    assert batch_state(made.pk, using=alias).counts == BatchCounts(1)


def test_a_task_that_a_living_worker_may_run_waits(alias: str, later: Callable[[timedelta], int]) -> None:
    """It was acknowledged when it began: it has no message while it runs."""
    made = a_batch(alias, 3)
    now, far = timezone.now(), timezone.now() + 10 * RUNNING_FOR
    times = {"started_at": now, "heartbeat_at": now}
    given = {"kind": "celery", "host": "h", "pid": 1, "version": "0", "queues": [], "credit": 1, **times}
    session = WorkerSession.objects.using(alias).create(name="w", deadline=far, **given)
    running, lost, retried = members(alias)
    for member in (running, lost, retried):
        BatchMember.objects.using(alias).filter(pk=member.pk).update(task_id=str(member.pk))
    past(alias, running.message_id, ACCEPTED, session_id=session.pk, correlation_id=str(running.pk))
    past(alias, lost.message_id, ACCEPTED, correlation_id=str(lost.pk))
    messages = Message.objects.using(alias).filter(queue__name="parts")
    messages.exclude(message_id=retried.message_id).delete()
    messages.update(message_id=uuid4(), correlation_id=str(retried.pk))

    assert later(timedelta(0)) == 0
    assert later(MISSING_FOR + timedelta(seconds=1)) == 1
    assert batch_state(made.pk, using=alias).counts == BatchCounts(waiting=2, failed=1)
    assert later(RUNNING_FOR) == 1


def test_a_cancel_that_has_stopped_halfway_goes_on(alias: str, later: Callable[[timedelta], int]) -> None:
    made = a_batch(alias, 4)
    MessageBatch.objects.using(alias).update(cancelled_at=timezone.now())

    assert later(timedelta(0)) == 4
    assert batch_state(made.pk, using=alias).state.value == "cancelled"


def test_a_look_is_bounded_and_goes_on_where_it_has_stopped(alias: str) -> None:
    a_batch(alias, 5)
    ids = [each.pk for each in members(alias)]
    places = []
    for _ in range(3):
        assert reconcile(shared_store(alias), 2) == 0
        places.append(MessageBatch.objects.using(alias).get().checked_to)

    assert places == [ids[1], ids[3], None]


def test_memory_has_nothing_to_reconcile() -> None:
    store = private_store(MEMORY)
    assert reconcile(store, 1) == 0
    store.close()
