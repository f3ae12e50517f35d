"""The native worker, end to end: threads of this process on a real database."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import transaction

from django_mq.api import pause, publish, publish_many, resume
from django_mq.delivery.consumer import heartbeat
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import Decline, HandlersHang, Reject, Release, Retry, WorkerInTransaction
from django_mq.models import Attempt, Consumer, History, Message, Queue, WorkerSession
from django_mq.stores.registry import private_store, shared_store
from tests.delivery.builders import a_handler, running
from tests.stores.builders import claim, open_session, settle
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from pytest_django import Settings

    from django_mq.delivery.codecs import ReceivedMessage

pytestmark = pytest.mark.on("sqlite", once="postgresql")

STATUS = Message.Status


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> str:
    """A database with the queue ``orders``, which repeats failures at once."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    Queue.objects.using(committed_database).update(backoff_seconds=0, backoff_jitter=0)
    return committed_database


def finished(alias: str) -> int:
    return History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED).count()


class Diary:
    """A handler that remembers what it was given."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def __call__(self, message: Any) -> None:
        self.bodies.append(message.body)

    def wait_for(self, number: int) -> None:
        wait_until(lambda: len(self.bodies) >= number, lambda: f"{number} messages; came {self.bodies}")


def test_everything_that_is_published_is_handled_once(alias: str) -> None:
    diary = Diary()
    publish_many([("orders", number) for number in range(100)])

    with running(a_handler(diary), using=alias, threads=4):
        publish_many([("orders", number) for number in range(100, 200)])
        wait_until(lambda: finished(alias) == 200)

    assert Counter(diary.bodies) == Counter(range(200))
    assert not Message.objects.using(alias).exists()


def test_one_thread_handles_messages_by_priority_then_by_arrival(alias: str) -> None:
    diary = Diary()
    for number, priority in enumerate((4, 9, 0, 9, 4)):
        publish("orders", number, priority=priority)

    with running(a_handler(diary), using=alias, threads=1):
        diary.wait_for(5)

    assert diary.bodies == [1, 3, 0, 4, 2]


def test_until_empty_ends_by_itself(alias: str) -> None:
    diary = Diary()
    publish_many([("orders", number) for number in range(30)])

    Worker([a_handler(diary)], threads=2, using=alias).run(until_empty=True)

    assert (len(diary.bodies), finished(alias)) == (30, 30)
    assert not WorkerSession.objects.using(alias).exists()


def test_until_empty_waits_for_a_message_that_failed_and_is_ready_again(alias: str) -> None:
    Queue.objects.using(alias).update(max_attempts=3, backoff_seconds=0)
    attempts: list[int] = []

    def fail(message: Any) -> None:
        attempts.append(message.attempt)
        raise ValueError("again")

    for _ in range(10):  # the worker may look just before the message is ready again, or just after
        publish("orders", 1)
        Worker([a_handler(fail)], threads=4, using=alias).run(until_empty=True)

    assert attempts == [1, 2, 3] * 10


def test_an_idle_worker_is_woken_by_a_commit(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 3600, "SAFETY_POLL_SECONDS": 3600}
    diary = Diary()

    with running(a_handler(diary), using=alias) as worker:
        wait_until(lambda: worker.session.id is not None and worker._waiting)
        publish("orders", 1)
        diary.wait_for(1)


def test_two_queues_are_handled_side_by_side(alias: str) -> None:
    declare(shared_store(alias), "mails")
    orders, mails, gate = Diary(), Diary(), threading.Event()

    def stuck(message: Any) -> None:
        gate.wait(PATIENCE_SECONDS)
        mails(message)

    publish_many([("mails", number) for number in range(5)])
    publish_many([("orders", number) for number in range(5)])
    with running(a_handler(orders), a_handler(stuck, queue="mails", credit=1), using=alias, threads=2):
        orders.wait_for(5)
        gate.set()
        mails.wait_for(5)


def test_handlers_of_one_queue_share_its_messages_by_priority(alias: str) -> None:
    usual, better = Diary(), Diary()
    publish_many([("orders", number) for number in range(10)])

    handlers = [a_handler(usual, credit=4), a_handler(better, credit=2, priority=5)]
    Worker(handlers, threads=1, using=alias).run(until_empty=True)

    # One thread: the better one has credit again before the next message begins.
    assert (usual.bodies, better.bodies) == ([], list(range(10)))
    assert finished(alias) == 10


def test_a_handler_that_is_busy_leaves_the_messages_of_its_queue_to_the_other(alias: str) -> None:
    released = threading.Event()
    diary = Diary()
    publish_many([("orders", number) for number in range(4)])

    def wait(_: Any) -> None:
        assert released.wait(PATIENCE_SECONDS)

    with running(a_handler(wait, credit=1, priority=5), a_handler(diary), using=alias):
        try:
            diary.wait_for(3)
            assert finished(alias) < 4
        finally:
            released.set()
        wait_until(lambda: finished(alias) == 4, lambda: "four messages accepted")


@pytest.mark.parametrize("threads", [1, 4])
def test_a_handler_with_little_credit_does_not_make_the_claims_for_another_small(alias: str, threads: int) -> None:
    declare(shared_store(alias), "mails")
    publish_many([("orders", number) for number in range(200)])
    diary = Diary()
    handlers = [a_handler(diary, credit=20), a_handler(lambda _: None, queue="mails", credit=1)]
    worker = Worker(handlers, threads=threads, using=alias)
    claims = worker.session.store.claims.tokens  # type: ignore[attr-defined]
    begin = next(claims)

    worker.run(until_empty=True)

    assert sorted(diary.bodies) == list(range(200))
    assert next(claims) - begin < 100


def test_no_more_messages_are_held_than_the_credit(alias: str) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def handle(_: Any) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)

    publish_many([("orders", number) for number in range(10)])
    with running(a_handler(handle, credit=3), using=alias, threads=5):
        for _ in range(3):
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        assert Message.objects.using(alias).filter(state=STATUS.CLAIMED).count() == 3
        gate.set()
        wait_until(lambda: finished(alias) == 10)


# What goes wrong in handlers.


def test_a_failure_is_repeated_after_its_backoff_until_it_succeeds(alias: str) -> None:
    attempts: list[int] = []

    def handle(message: Any) -> None:
        attempts.append(message.attempt)
        if message.attempt < 3:
            raise ValueError(f"attempt {message.attempt}")

    publish("orders", 1)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: finished(alias) == 1)

    assert attempts == [1, 2, 3]
    failures = Attempt.objects.using(alias).order_by("number").values_list("number", "error", "detail")
    assert list(failures) == [(1, "ValueError", "attempt 1"), (2, "ValueError", "attempt 2")]


def test_a_backoff_holds_the_message_back(alias: str) -> None:
    Queue.objects.using(alias).update(backoff_seconds=3600)

    def handle(_: Any) -> None:
        raise ValueError

    publish("orders", 1)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.SCHEDULED, attempts=1).exists())


def test_the_last_failure_is_a_dead_letter_with_its_traceback(alias: str) -> None:
    Queue.objects.using(alias).update(max_attempts=2)

    def handle(_: Any) -> None:
        raise ValueError("bad total")

    publish("orders", 1)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.DEAD).exists())

    row = Message.objects.using(alias).get()
    assert (row.attempts, row.dead_reason) == (2, "ValueError: bad total")
    tracebacks = Attempt.objects.using(alias).values_list("traceback", flat=True)
    assert len(tracebacks) == 2
    assert all('raise ValueError("bad total")' in text for text in tracebacks)


def test_a_dead_letter_goes_to_the_dead_letter_queue(alias: str) -> None:
    declare(shared_store(alias), "dead")
    Queue.objects.using(alias).filter(name="orders").update(
        dead_letter_queue=Queue.objects.using(alias).get(name="dead")
    )

    def handle(_: Any) -> None:
        raise Reject("not ours")

    publish("orders", 1)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: Message.objects.using(alias).filter(queue__name="dead", state=STATUS.READY).exists())


def test_release_and_retry_bring_the_message_back(alias: str) -> None:
    seen: list[tuple[int, bool]] = []

    def handle(message: Any) -> None:
        seen.append((message.attempt, message.redelivered))
        if len(seen) == 1:
            raise Release
        if len(seen) == 2:
            raise Retry("once more", delay_seconds=0)

    publish("orders", 1)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: finished(alias) == 1)

    assert seen == [(1, False), (1, True), (2, True)]


def test_a_declined_message_is_handled_by_another_worker(alias: str) -> None:
    diary, declined = Diary(), Diary()

    def decline(message: Any) -> None:
        declined(message)
        raise Decline

    publish_many([("orders", number) for number in range(3)])
    with running(a_handler(decline), using=alias):
        declined.wait_for(3)
        with running(a_handler(diary), using=alias):
            wait_until(lambda: finished(alias) == 3)

    assert (sorted(diary.bodies), sorted(declined.bodies)) == ([0, 1, 2], [0, 1, 2])


def test_a_declined_message_is_handled_by_another_handler_of_the_worker(alias: str) -> None:
    diary = Diary()

    def decline(_: Any) -> None:
        raise Decline

    publish_many([("orders", number) for number in range(3)])
    with running(a_handler(decline, priority=1), a_handler(diary), using=alias):
        wait_until(lambda: finished(alias) == 3)

    assert sorted(diary.bodies) == [0, 1, 2]


def test_a_declined_message_goes_to_the_next_handler_that_wants_it(alias: str) -> None:
    small, rest = Diary(), Diary()

    def decline(_: Any) -> None:
        raise Decline

    for size in range(4):
        publish("orders", size, headers={"size": size})
    handlers = [a_handler(decline, selector="size < 3"), a_handler(small, selector="size < 2"), a_handler(rest)]
    with running(*handlers, using=alias):
        wait_until(lambda: finished(alias) == 4)

    assert (sorted(small.bodies), sorted(rest.bodies)) == ([0, 1], [2, 3])


def test_what_all_handlers_of_all_workers_decline_is_dead(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DECLINE_GRACE_SECONDS": 0.3}

    def decline(_: Any) -> None:
        raise Decline

    publish("orders", 1)
    dead = Message.objects.using(alias).filter(state=STATUS.DEAD)
    with running(a_handler(decline), a_handler(decline), using=alias):
        wait_until(dead.exists)

    assert (dead.get().dead_reason, dead.get().attempts) == ("declined by all consumers", 0)


def test_a_corrupt_row_is_a_dead_letter_and_the_others_go_on(alias: str) -> None:
    diary = Diary()
    publish_many([("orders", number) for number in range(5)])
    third = Message.objects.using(alias).order_by("id")[2]
    Message.objects.using(alias).filter(pk=third.pk).update(body=b"{")
    fourth = Message.objects.using(alias).order_by("id")[3]
    Message.objects.using(alias).filter(pk=fourth.pk).update(headers=["no", "object"])

    with running(a_handler(diary), using=alias):
        wait_until(lambda: finished(alias) == 3)
        wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.DEAD).count() == 2)

    assert sorted(diary.bodies) == [0, 1, 4]
    reasons = Message.objects.using(alias).order_by("id").values_list("dead_reason", flat=True)
    assert [reason.partition(":")[0] for reason in reasons] == ["CorruptMessage", "CorruptMessage"]


def test_a_celery_task_is_left_for_a_celery_worker_and_never_judged(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    diary, task = Diary(), uuid4()
    Queue.objects.using(alias).update(max_attempts=1)
    headers = {"lang": "py", "task": "shop.bill", "retries": 0, "timelimit": [None, None]}
    publish("orders", [[], {}, {}], message_id=task, headers=headers, type="shop.bill")
    publish("orders", "for the handler", headers={"task": "of the publisher's own"})

    with running(a_handler(diary), using=alias):
        wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.SCHEDULED).count() == 1)
        diary.wait_for(1)

    left = Message.objects.using(alias).get()
    assert (left.message_id, left.attempts, left.state) == (task, 0, STATUS.SCHEDULED)
    assert diary.bodies == ["for the handler"]
    assert "Queue 'orders' holds Celery tasks, first 'shop.bill'" in caplog.text


def test_a_handler_that_never_returns_is_timed_out_and_others_go_on(alias: str) -> None:
    declare(shared_store(alias), "endless")
    Queue.objects.using(alias).update(max_attempts=1)
    diary, begun, never = Diary(), threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        never.wait(PATIENCE_SECONDS)

    publish("endless", "stuck")
    # Those that go on have no limit: a machine that stands still for a second is nothing to them.
    endless = a_handler(wait, queue="endless", time_limit_seconds=1)
    try:
        with running(endless, a_handler(diary), using=alias, threads=1):
            assert begun.wait(PATIENCE_SECONDS)
            publish_many([("orders", number) for number in range(3)])
            wait_until(lambda: finished(alias) == 3)
            wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.DEAD).exists())
    finally:
        never.set()

    assert Message.objects.using(alias).get().dead_reason.startswith("HandlerTimeout: ")
    assert Attempt.objects.using(alias).get().error == "HandlerTimeout"


def test_a_worker_whose_handlers_never_return_ends_to_be_restarted(alias: str) -> None:
    never = threading.Event()
    publish_many([("orders", number) for number in range(8)])
    endless = a_handler(lambda _: never.wait(PATIENCE_SECONDS), time_limit_seconds=0.05)
    worker = Worker([endless], threads=1, using=alias)

    try:
        with pytest.raises(HandlersHang, match="4 handlers still run"):
            worker.run()
    finally:
        never.set()

    assert Message.objects.using(alias).filter(state=STATUS.CLAIMED).count() == 0
    assert Attempt.objects.using(alias).filter(error="HandlerTimeout").count() == 4


# Times and pauses.


def test_a_scheduled_message_is_not_handled_before_it_is_due(alias: str) -> None:
    diary = Diary()

    with running(a_handler(diary), using=alias):
        later_id = publish("orders", "later", delay=2)
        publish("orders", "far", delay=3600)
        publish("orders", "now")
        diary.wait_for(2)

    assert set(diary.bodies) == {"now", "later"}
    later = History.objects.using(alias).get(message_id=later_id)
    assert later.claimed_at is not None
    assert (later.claimed_at - later.published_at).total_seconds() >= 2
    assert Message.objects.using(alias).get().state == STATUS.SCHEDULED


def test_a_paused_queue_delivers_nothing_until_it_is_resumed(alias: str) -> None:
    diary = Diary()
    declare(shared_store(alias), "mails")
    pause("orders", reason="stocktaking")
    publish("orders", 1)
    publish("mails", 2)

    with running(a_handler(diary), a_handler(diary, queue="mails"), using=alias):
        diary.wait_for(1)
        wait_until(lambda: finished(alias) == 1)
        assert diary.bodies == [2]

        resume("orders")
        diary.wait_for(2)


def test_an_expired_message_is_finished_and_never_handled(alias: str) -> None:
    diary = Diary()
    publish("orders", "old", ttl=0)
    publish("orders", "new")

    with running(a_handler(diary), using=alias):
        wait_until(lambda: History.objects.using(alias).count() == 2)

    assert diary.bodies == ["new"]
    assert set(History.objects.using(alias).values_list("outcome", flat=True)) == {
        History.Outcome.ACCEPTED,
        History.Outcome.EXPIRED,
    }


# Ends.


def test_stopping_finishes_what_runs_and_gives_back_the_rest_uncounted(alias: str) -> None:
    gate, begun = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        gate.wait(PATIENCE_SECONDS)

    publish_many([("orders", number) for number in range(5)])
    with running(a_handler(handle), using=alias, threads=1) as worker:
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop()
        wait_until(lambda: Message.objects.using(alias).filter(state=STATUS.READY).count() == 4)
        gate.set()

    rows = Message.objects.using(alias).values_list("state", "attempts")
    assert list(rows) == [(STATUS.READY, 0)] * 4
    assert finished(alias) == 1
    assert not WorkerSession.objects.using(alias).exists()


def test_stopping_at_once_gives_back_what_runs(alias: str) -> None:
    gate, begun = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        gate.wait(PATIENCE_SECONDS)

    publish("orders", 1)
    with running(a_handler(handle), using=alias, threads=1) as worker:
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop()
        worker.stop(at_once=True)
        wait_until(lambda: not WorkerSession.objects.using(alias).exists())
    gate.set()

    row = Message.objects.using(alias).get()
    assert (row.state, row.attempts) == (STATUS.READY, 0)


def test_a_worker_whose_session_was_reaped_handles_what_it_held_once(alias: str) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)
    diary = Diary()

    def handle(message: Any) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)
        diary(message)

    publish_many([("orders", number) for number in range(6)])
    with running(a_handler(handle), using=alias, threads=2) as worker:
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        reap_everybody(alias)
        worker.session.renew_soon()
        wait_until(lambda: worker.session.state.record.revivals)
        gate.set()
        wait_until(lambda: finished(alias) == 6)

    assert sorted(diary.bodies) == list(range(6))
    assert not Message.objects.using(alias).exists()


def test_a_worker_whose_messages_were_given_to_others_begins_anew_and_its_late_verdicts_are_void(
    alias: str,
) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    def handle(message: Any) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)

    publish_many([("orders", number) for number in range(4)])
    with closing(private_store(alias)) as store, running(a_handler(handle), using=alias, threads=2) as worker:
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        lost, other = worker.session, open_session(store)
        with worker.session.state.lock:  # so that the other comes first
            reap_everybody(alias, spare=other)
            # The worker may just be asking for them, in vain: its locks are passed over.
            [taken] = wait_until(lambda: claim(store, other))
        wait_until(lambda: worker.session is not lost)
        gate.set()
        wait_until(lambda: finished(alias) == 3)
        assert settle(store, other, taken, Verdict.ACCEPT) == frozenset()

    assert not Message.objects.using(alias).exists()


def reap_everybody(alias: str, *, spare: int = 0) -> None:
    """What another worker does when the deadline has passed: by its clock, which no renewal can outrun."""
    with closing(private_store(alias)) as store:
        store.database.clock_offset = timedelta(days=1)
        wait_until(
            lambda: store.sessions.reap(spare=spare)
        )  # a session that is just being renewed is left for the next look


def test_the_operator_sees_the_worker_and_its_consumers(alias: str, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2}
    with running(a_handler(Diary(), credit=7), using=alias, name="picker"):
        session = wait_until(
            lambda: WorkerSession.objects.using(alias).filter(name="picker", consumers__credit_limit=7).first()
        )

    assert (session.queues, session.credit) == (["orders"], 7)


def test_a_driver_does_not_sleep_over_credit_that_came_back_before_it_lay_down(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = Diary()
    publish_many([("orders", number) for number in range(4)])
    worker = Worker([a_handler(diary, credit=2)], threads=1, using=alias)
    # Else the heartbeat might write them before anybody has looked.
    monkeypatch.setattr(heartbeat, "STALE_SECONDS", PATIENCE_SECONDS)

    worker.turn()
    wait_until(lambda: len(worker.session.settlements) == 2)
    credit_is_back = worker._may_claim()
    worker.turn()
    diary.wait_for(4)

    assert credit_is_back
    worker.stop()
    worker.run()


def test_a_group_is_handled_in_order_by_many_threads_of_two_workers(alias: str) -> None:
    Queue.objects.using(alias).update(grouping="shared", max_attempts=3)
    started, failed = [], set()

    def step(message: Any) -> None:
        started.append((message.headers["order"], message.body))
        if message.body == 1 and message.headers["order"] not in failed:
            failed.add(message.headers["order"])
            raise ValueError

    for number in range(4):
        for order in "abc":
            publish("orders", number, group_key=order, headers={"order": order})
    with running(a_handler(step), using=alias, threads=4), running(a_handler(step), using=alias, threads=4):
        wait_until(lambda: finished(alias) == 12, lambda: f"all 12 messages; came {started}")

    for order in "abc":
        assert [body for name, body in started if name == order] == [0, 1, 1, 2, 3]


def test_a_worker_says_which_priority_its_handler_has(alias: str) -> None:
    told = Consumer.objects.using(alias).filter(queue_name="orders")

    with running(a_handler(priority=5), using=alias):
        wait_until(lambda: [row.priority for row in told.all()] == [5], lambda: f"its priority: {told.all()}")


def test_a_second_worker_of_an_exclusive_queue_stands_by_and_says_so(
    alias: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("django_mq.delivery.consumer.worker.AGAIN_SECONDS", 0.1)
    Queue.objects.using(alias).update(exclusive=True)
    first, second = Diary(), Diary()

    with running(a_handler(first), using=alias):
        publish("orders", 1)
        first.wait_for(1)
        with running(a_handler(second), using=alias):
            wait_until(lambda: "Standing by" in caplog.text, lambda: "the refusal")
            publish("orders", 2)
            first.wait_for(2)

    assert (first.bodies, second.bodies, caplog.text.count("Standing by")) == ([1, 2], [], 1)


def test_a_worker_of_higher_priority_that_may_not_receive_keeps_nothing_from_the_one_that_may(alias: str) -> None:
    Queue.objects.using(alias).update(grouping="sole")
    first, better = Diary(), Diary()

    with running(a_handler(first), using=alias):
        publish("orders", 0)
        first.wait_for(1)
        with running(a_handler(better, priority=10), using=alias):
            wait_until(lambda: Consumer.objects.using(alias).filter(priority=10).exists())
            publish_many([("orders", number) for number in (1, 2, 3)])
            first.wait_for(4)

    assert (first.bodies, better.bodies) == ([0, 1, 2, 3], [])


def test_a_notice_reaches_the_one_worker_that_may_have_the_message(
    alias: str, settings: Settings, redis_url: str
) -> None:
    # No worker looks without a hint before the test gives up, and no hint is dropped because Redis is slow.
    hints = {"REDIS_URL": redis_url, "REDIS_PREFIX": f"test-{uuid4().hex}", "SAFETY_POLL_SECONDS": 1000.0}
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **hints, "REDIS_TIMEOUT_SECONDS": PATIENCE_SECONDS}
    Queue.objects.using(alias).update(grouping="sole")
    diaries = [Diary(), Diary(), Diary()]

    with (
        running(a_handler(diaries[0]), using=alias),
        running(a_handler(diaries[1]), using=alias),
        running(a_handler(diaries[2]), using=alias),
    ):
        for number in range(6):
            publish("orders", number)
            wait_until(
                lambda: sum(len(diary.bodies) for diary in diaries) > number,  # noqa: B023
                lambda: f"message {number}; came {[diary.bodies for diary in diaries]}",  # noqa: B023
            )

    assert sorted(len(diary.bodies) for diary in diaries) == [0, 0, 6]


def test_each_message_goes_to_the_first_handler_that_wants_it_and_the_rest_stays(alias: str) -> None:
    small, european = Diary(), Diary()
    handlers = [
        a_handler(european, selector="region = 'eu'", credit=3),
        a_handler(small, selector="size < 10", credit=2),
    ]
    for number in range(24):
        headers = {"region": "eu"} if number % 3 == 0 else {"size": number % 3 * 8}
        publish("orders", number, headers=headers)

    Worker(handlers, threads=2, using=alias).run(until_empty=True)

    assert sorted(european.bodies) == list(range(0, 24, 3))
    assert sorted(small.bodies) == list(range(1, 24, 3))
    assert Message.objects.using(alias).filter(state=STATUS.READY).count() == 8


def test_a_worker_in_a_transaction_is_refused_at_once(alias: str) -> None:
    worker = Worker([a_handler()], threads=1, using=alias)

    with transaction.atomic(using=alias), pytest.raises(WorkerInTransaction, match="drain the queues"):
        worker.run(until_empty=True)


def test_a_handler_without_a_selector_gets_the_rest(alias: str) -> None:
    rest, chosen = Diary(), Diary()
    for number in range(20):
        publish("orders", number, headers={"number": number})

    handlers = [a_handler(rest), a_handler(chosen, selector="number * 2 < 10")]
    Worker(handlers, threads=2, using=alias).run(until_empty=True)

    assert (sorted(chosen.bodies), sorted(rest.bodies)) == (list(range(5)), list(range(5, 20)))


def test_two_workers_get_what_each_wants(alias: str) -> None:
    eu, us = Diary(), Diary()

    with (
        running(a_handler(eu, selector="region = 'eu'"), using=alias, threads=1),
        running(a_handler(us, selector="region = 'us'"), using=alias, threads=1),
    ):
        for number in range(10):
            publish("orders", number, headers={"region": "eu" if number % 2 else "us"})
        eu.wait_for(5)
        us.wait_for(5)
        shown = set(Consumer.objects.using(alias).values_list("selector", flat=True))

    assert (sorted(eu.bodies), sorted(us.bodies)) == ([1, 3, 5, 7, 9], [0, 2, 4, 6, 8])
    assert shown <= {"region = 'eu'", "region = 'us'"}


def test_a_worker_that_ends_asks_its_handlers_to_end_and_gives_the_message_back(alias: str) -> None:
    begun = threading.Event()

    def work(message: ReceivedMessage) -> None:
        begun.set()
        wait_until(lambda: message.cancelled)
        message.raise_if_cancelled()

    publish("orders", "long")
    with running(a_handler(work), using=alias, threads=1):
        assert begun.wait(PATIENCE_SECONDS)

    left = Message.objects.using(alias).get()
    assert (left.state, left.attempts) == (STATUS.READY, 0)
