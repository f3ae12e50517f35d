"""A batch counts its members, and publishes each callback once, when the last one has ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

from django_mq.api import (
    BatchState,
    OutgoingMessage,
    Reject,
    Unique,
    apublish,
    batch,
    batch_state,
    cancel,
    consumer,
    current_batch,
    find_batch,
    publish,
    publish_many,
    purge,
)
from django_mq.batches import ends
from django_mq.batches.duty import look_again, prune
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.delivery.consumer.handlers import forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.batches import BatchCounts
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import BatchClosed, BatchMisused, InvalidMessage, UnknownBatch, UnknownQueue, UnsupportedRule
from django_mq.models import Message
from django_mq.stores import queue_records
from django_mq.stores.registry import MEMORY, private_store, shared_store
from tests.stores.builders import claim, open_session, settle
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = {"on_complete": ("told", "complete"), "on_success": ("told", "success"), "on_failure": ("told", "failure")}


def failing(*numbers: int) -> Callable[[Any], None]:
    """Return a handler that rejects these bodies."""

    def handle(message: Any) -> None:
        if message.body in numbers:
            raise Reject("no")

    return handle


def a_batch(alias: str, *bodies: int, queue: str = "parts", **options: Any) -> Any:
    """Publish a batch with these bodies, and return it."""
    with batch("import", using=alias, **{**ALL, **options}) as made:
        publish_many([(queue, body) for body in bodies], using=alias)
    return made


@pytest.mark.parametrize(
    ("bodies", "wrong", "told", "state"),
    [
        ((1, 2, 3), (), ["complete", "success"], BatchState.SUCCEEDED),
        ((1, 2, 3), (2, 3), ["failure", "complete"], BatchState.FAILED),
        ((), (), ["complete", "success"], BatchState.SUCCEEDED),
    ],
)
def test_the_callbacks_come_once_when_the_last_member_has_ended(  # noqa: PLR0917 - a table
    alias: str,
    work: Callable[..., list[Any]],
    bodies: tuple[int, ...],
    wrong: tuple[int, ...],
    told: list[str],
    state: BatchState,
) -> None:
    made = a_batch(alias, *bodies)

    assert work(handle=failing(*wrong)) == told
    assert work() == []
    found = batch_state(made.id, using=alias)
    assert (found.state, found.done) == (state, 1.0)
    assert found.counts == BatchCounts(0, len(bodies) - len(wrong), len(wrong), 0)


def test_the_first_failure_is_told_before_the_last_member_ends(alias: str, work: Callable[..., list[Any]]) -> None:
    made = a_batch(alias, 1, 2, 3, open=True)

    assert work(handle=failing(1, 2)) == ["failure"]
    made.close()
    assert work() == ["complete"]


def test_a_batch_that_is_rolled_back_leaves_nothing(alias: str) -> None:
    with transaction.atomic(using=alias):
        made = a_batch(alias, 1, 2)
        transaction.set_rollback(True, using=alias)

    assert not MessageBatch.objects.using(alias).exists()
    assert not BatchMember.objects.using(alias).exists()
    with pytest.raises(UnknownBatch):
        batch_state(made.id, using=alias)


def test_a_block_that_raises_cancels_its_batch(alias: str, work: Callable[..., list[Any]]) -> None:
    made = batch(using=alias, **ALL)
    with suppress(ZeroDivisionError), made:
        publish("parts", 1 // (publish("parts", 1, using=alias).int * 0), using=alias)

    assert work() == ["complete"]
    assert batch_state(made.id, using=alias).state is BatchState.CANCELLED
    assert batch_state(made.id, using=alias).counts == BatchCounts(cancelled=1)


def test_an_open_batch_takes_members_until_it_is_closed(alias: str, work: Callable[..., list[Any]]) -> None:
    with batch(open=True, using=alias, **ALL) as made:
        publish("parts", 1, using=alias)
    assert work() == []
    with find_batch(str(made.id), using=alias) as again:
        publish("parts", 2, using=alias)
    assert work() == []
    assert again.close() is BatchState.SUCCEEDED
    assert again.close() is BatchState.SUCCEEDED
    assert work() == ["complete", "success"]

    with pytest.raises(BatchClosed, match="has ended: succeeded"), again:
        publish("parts", 3, using=alias)
    assert not Message.objects.using(alias).filter(queue__name="parts").exists()


def test_a_handler_adds_members_to_a_batch_that_is_closed(alias: str, work: Callable[..., list[Any]]) -> None:
    made = a_batch(alias, 3)

    def handle(message: Any) -> None:
        with current_batch(message, using=alias):
            publish_many([("parts", message.body - 1)] * (message.body > 0), using=alias)

    assert work(handle=handle) == ["complete", "success"]
    assert batch_state(made.id, using=alias).counts.succeeded == 4


def test_what_is_published_outside_of_the_block_or_in_another_one_is_no_member(alias: str) -> None:
    with batch("outer", using=alias) as outer:
        publish("parts", 1, using=alias)
        with batch("inner", using=alias) as inner:
            publish("parts", 2, using=alias)
        publish("parts", 3, using=alias)
    publish("parts", 4, using=alias)

    assert [batch_state(each.id, using=alias).counts.total for each in (outer, inner)] == [2, 1]


def test_async_code_has_batches(alias: str, settings: Any) -> None:
    async def begin() -> Any:
        async with batch(using=alias) as made:
            await apublish("parts", 1, using=alias)
        return made

    made = async_to_sync(begin)()

    assert batch_state(made.id, using=alias).counts.total == 1


def test_what_limits_and_keys_drop_is_no_member(alias: str) -> None:
    once = Unique(key="one", second="drop")
    with batch(using=alias) as made:
        publish("few", 1, using=alias)
        publish_many([("few", 2)], using=alias)
        for body in (3, 4):
            publish("parts", body, unique=once, using=alias)

    assert batch_state(made.id, using=alias).counts.total == 2


def test_each_queue_of_an_exchange_has_a_member(alias: str, work: Callable[..., list[Any]]) -> None:
    for queue in ("parts", "dying"):
        exchanges = shared_store(alias).exchanges
        exchanges.bind(exchange="news", exchange_type="fanout", pattern="", queue=queue, selector="")
    with batch(using=alias, **ALL) as made:
        publish(exchange="news", body=1, using=alias)

    assert work() == []
    assert batch_state(made.id, using=alias).counts == BatchCounts(1, 1)
    assert work("dying") == ["complete", "success"]


@pytest.mark.parametrize("queue", ["parts", "dying"])
def test_a_dead_letter_that_is_redriven_reopens_its_batch(
    alias: str, work: Callable[..., list[Any]], queue: str
) -> None:
    made = a_batch(alias, 1, 2, queue=queue)
    assert work(queue, failing(2)) == ["failure", "complete"]

    assert made.redrive() == 1
    assert batch_state(made.id, using=alias).state is BatchState.RUNNING
    assert work(queue, failing(2)) == []
    assert batch_state(made.id, using=alias).state is BatchState.FAILED
    assert made.redrive() == 1
    assert work(queue) == ["success"]
    assert batch_state(made.id, using=alias).state is BatchState.SUCCEEDED


def test_messages_that_are_removed_count_as_cancelled(alias: str, work: Callable[..., list[Any]]) -> None:
    with batch(using=alias, **ALL) as made:
        one = publish("parts", 1, using=alias)
        publish("parts", 2, using=alias)
    cancel(one, using=alias)
    purge("parts", using=alias)

    assert batch_state(made.id, using=alias).counts == BatchCounts(cancelled=2)
    assert work() == ["complete"]


def test_a_cancelled_batch_ends_with_what_was_running(alias: str, work: Callable[..., list[Any]]) -> None:
    made = a_batch(alias, *range(5))
    refused: list[Exception] = []

    def handle(message: Any) -> None:
        assert made.cancel() in {4, 0}
        with pytest.raises(BatchClosed, match="was cancelled") as error, current_batch(message, using=alias):
            publish("parts", 9, using=alias)
        refused.append(error.value)

    assert work(handle=handle) == ["complete"]
    found = batch_state(made.id, using=alias)
    assert (found.state, found.counts.cancelled) == (BatchState.CANCELLED, 5 - len(refused))
    assert made.cancel() == 0


def test_a_callback_is_a_message_with_its_options_and_the_id_of_the_batch(alias: str) -> None:
    done = OutgoingMessage(queue="told", body={"n": 17}, priority=9, type="done", headers={"h": 1})
    made = a_batch(alias, on_complete=done, on_success=None, on_failure=None)

    [found] = Message.objects.using(alias).filter(queue__name="told")
    assert (found.priority, found.type, found.headers) == (9, "done", {"h": 1, "x-batch-of": str(made.id)})


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"on_complete": ("nowhere", 1)}, UnknownQueue, "nowhere"),
        ({"on_complete": "told"}, InvalidMessage, "give a pair of queue and body"),
        ({"on_failure": OutgoingMessage(exchange="e", body=1)}, InvalidMessage, "goes to a queue"),
        ({"on_success": ("told", object())}, InvalidMessage, "JSON"),
        ({"name": "n" * 300}, InvalidMessage, "200"),
        ({"using": MEMORY}, UnsupportedRule, "memory"),
    ],
)
def test_what_no_batch_can_have_is_refused_before_anything_is_written(
    alias: str, wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        batch(**{"using": alias, **wrong})

    assert not MessageBatch.objects.using(alias).exists()


def test_a_batch_begins_once_and_its_messages_are_in_its_database(alias: str) -> None:
    with batch(using=alias) as made:
        pass
    with pytest.raises(BatchMisused, match="was begun before"), made:
        pass
    with pytest.raises(UnknownBatch), find_batch(uuid4(), using=alias):
        publish("parts", 1, using=alias)
    with pytest.raises(UnknownBatch):
        find_batch("seventeen", using=alias)
    with pytest.raises(BatchMisused, match="belongs to no batch"):
        current_batch(Message(headers={}), using=alias)
    with pytest.raises(BatchMisused, match="is in the database"), batch(using=alias):
        publish("parts", 1, using=MEMORY)


def test_a_queue_that_is_gone_keeps_its_callback_until_it_is_there_again(
    alias: str, work: Callable[..., list[Any]]
) -> None:
    made = a_batch(alias, 1)
    store = shared_store(alias)
    store.deletions.delete_queue("told", force=True)
    queue_records.drop(alias, "told")
    work_without_told(alias)

    row = MessageBatch.objects.using(alias).get(pk=made.id)
    assert (row.state, row.complete_at) == ("succeeded", None)
    assert "told" in row.problem
    declare(store, "told")
    look_again(store, 100)
    assert work() == ["complete", "success"]
    assert MessageBatch.objects.using(alias).get(pk=made.id).problem == ""


def work_without_told(alias: str) -> None:
    consumer("parts")(lambda _: None)
    Worker([handler_of("parts")], threads=1, using=alias).run(until_empty=True)
    forget("parts")


def test_of_two_last_ends_at_once_the_second_one_ends_the_batch(alias: str) -> None:
    """Each transaction has written its end before the other one looks."""
    store = shared_store(alias)
    if not store.features.concurrent_writers:
        pytest.skip("one transaction writes at a time")
    made = a_batch(alias, 1, 2)
    sessions = [private_store(alias) for _ in range(2)]
    held = [(each, open_session(each)) for each in sessions]
    messages = [(each, session, claim(each, session, "parts", credit=1)[0]) for each, session in held]
    written = threading.Barrier(2)
    looked = ends.look

    def look(*args: Any) -> None:
        written.wait(PATIENCE_SECONDS)
        looked(*args)

    def end(each: Any, session: int, message: Any) -> None:
        settle(each, session, message, Verdict.ACCEPT, told_to=message.told_to)
        each.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ends, "look", look)
        threads = [threading.Thread(target=end, args=args) for args in messages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)

    assert batch_state(made.id, using=alias).state is BatchState.SUCCEEDED
    assert Message.objects.using(alias).filter(queue__name="told").count() == 2


def test_the_maintenance_ends_what_no_transaction_has_seen_and_counts(alias: str) -> None:
    made = a_batch(alias, 1, 2)
    members = BatchMember.objects.using(alias).filter(batch_id=made.id)
    members.filter(pk=members.first().pk).update(state=1)
    look_again(shared_store(alias), 100)
    row = MessageBatch.objects.using(alias).get(pk=made.id)
    assert row.counts == BatchCounts(1, 1)

    members.update(state=1)
    assert look_again(shared_store(alias), 100) == 1
    assert look_again(shared_store(alias), 100) == 0
    assert Message.objects.using(alias).filter(queue__name="told").count() == 2


def test_the_maintenance_looks_at_live_batches_by_one_statement_and_locks_those_that_have_changed(
    alias: str, django_assert_num_queries: Any
) -> None:
    store, rows = shared_store(alias), MessageBatch.objects.using(alias)
    made = [a_batch(alias, 1, 2) for _ in range(3)]
    with batch("open", using=alias) as still_open:
        pass
    rows.filter(pk=still_open.id).update(state="open")
    look_again(store, 100)
    rows.update(locked_at=None)

    with django_assert_num_queries(1, using=alias):
        assert look_again(store, 100) == 0
    assert not rows.exclude(locked_at=None).exists()

    members = BatchMember.objects.using(alias).filter(batch_id=made[1].id)
    for member, state in zip(members.order_by("id"), (1, 2), strict=True):
        members.filter(pk=member.pk).update(state=state)
        look_again(store, 100)
        assert [row.pk for row in rows.exclude(locked_at=None)] == [made[1].id]
    assert rows.get(pk=made[1].id).state == "failed"
    rows.update(locked_at=None)
    rows.filter(pk=made[1].id).update(problem="not published")
    look_again(store, 100)
    assert [row.pk for row in rows.exclude(locked_at=None)] == [made[1].id]


def test_a_batch_that_ended_long_ago_is_deleted_and_a_running_one_never(alias: str, settings: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "BATCHES_KEEP_DAYS": 0}
    a_batch(alias, 1)
    running = a_batch(alias, 2)
    members = BatchMember.objects.using(alias)
    members.exclude(batch_id=running.id).update(state=1)
    look_again(shared_store(alias), 100)
    assert prune(shared_store(alias), 100) == 2

    assert list(MessageBatch.objects.using(alias).values_list("pk", flat=True)) == [running.id]
    connections[alias].close()
