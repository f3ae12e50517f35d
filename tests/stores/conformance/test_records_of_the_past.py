"""History and attempts: what is remembered of messages that are over, and of what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History
from django_mq.stores.records import Failure
from tests.stores.builders import claim, declare, lose_worker, open_session, pass_time, publish, settle, verdict
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import Attempt
    from django_mq.stores.base import Store

    Finished = Callable[[], list[History]]
    Attempts = Callable[[], list[Attempt]]

pytestmark = AS_PUBLISHER

Outcome = History.Outcome


def test_an_accepted_message_leaves_a_row_with_its_times(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    publish(store, type="t", correlation_id="c", priority=7, headers='{"a": 1}', body=b"secret")
    [message] = claim(store, session)

    settle(store, session, message, Verdict.ACCEPT)

    [row] = finished()
    assert (row.message_id, row.queue_name, row.outcome) == (message.message_id, orders, Outcome.ACCEPTED)
    assert (row.type, row.correlation_id, row.priority, row.headers) == ("t", "c", 7, {"a": 1})
    assert (row.attempts, row.session_id, row.body) == (0, session, None)
    assert row.published_at == row.ready_at == message.published_at
    assert row.published_at <= row.claimed_at <= row.finished_at  # type: ignore[operator]


def test_a_due_message_was_ready_when_it_was_due(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    publish(store, delay_seconds=10)
    pass_time(store, 60)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.ACCEPT)

    assert finished()[0].ready_at == message.deliver_at


def test_a_message_due_before_it_was_published_was_ready_when_published(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    publish(store, delay_seconds=-60)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.ACCEPT)

    assert finished()[0].ready_at == message.published_at


def test_the_history_counts_the_deliveries_that_failed_before(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    publish(store)
    settle(store, session, claim(store, session)[0], Verdict.RELEASE, counted=True)

    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)

    assert finished()[0].attempts == 1


def test_the_history_says_whether_the_last_delivery_was_not_the_first(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    for _ in range(3):
        publish(store)
    first, second, _ = claim(store, session)
    settle(store, session, first, Verdict.ACCEPT)
    settle(store, session, second, Verdict.RELEASE)
    lose_worker(store, session)

    other = open_session(store, "other")
    for _ in range(2):
        [message] = claim(store, other, credit=1)
        settle(store, other, message, Verdict.ACCEPT)

    assert [row.redelivered for row in finished()] == [False, True, True]


def test_a_suspect_that_succeeds_has_no_failed_delivery(store: Store, orders: str, finished: Finished) -> None:
    publish(store)
    doomed = open_session(store)
    claim(store, doomed)
    lose_worker(store, doomed)
    session = open_session(store)

    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)

    assert finished()[0].attempts == 0


def test_every_end_has_its_outcome(store: Store, orders: str, session: int, finished: Finished) -> None:
    publish(store)
    settle(store, session, claim(store, session)[0], Verdict.EXPIRE)
    store.operations.cancel([publish(store)])
    publish(store)
    store.deletions.purge(orders)
    publish(store, ttl_seconds=1)
    pass_time(store, 2)
    store.maintenance.expire()

    expected = [Outcome.EXPIRED, Outcome.CANCELLED, Outcome.PURGED, Outcome.EXPIRED]
    assert [row.outcome for row in finished()] == expected
    assert [row.session_id for row in finished()] == [session, None, None, None]


def test_every_way_to_another_queue_is_in_the_history_of_the_first(
    store: Store, session: int, finished: Finished
) -> None:
    declare(store, "failures")
    declare(store, "late")
    declare(store, dead_letter_queue="failures", expiry_queue="late", max_attempts=1)
    published = [publish(store, type=name, headers='{"a": 1}') for name in ("dead", "moved")]
    expiring = publish(store, type="expired", headers='{"a": 1}', ttl_seconds=1)
    [dead] = claim(store, session, credit=1)
    settle(store, session, dead, Verdict.DEAD, counted=True, reason="no")
    assert len(store.operations.move([published[1]], "late")) == 1
    pass_time(store, 10)
    assert (store.maintenance.expire(), len(store.operations.move([expiring], "failures"))) == (1, 0)

    rows = {row.type: row for row in finished()}

    assert {name: row.outcome for name, row in rows.items()} == {
        "dead": Outcome.DEAD,
        "moved": Outcome.MOVED,
        "expired": Outcome.EXPIRED,
    }
    assert [(row.queue_name, row.session_id, row.headers) for row in rows.values()] == [
        ("orders", None, {"a": 1})
    ] * 3
    assert [rows[name].attempts for name in ("dead", "moved")] == [1, 0]


def test_what_cannot_move_leaves_no_row(store: Store, session: int, finished: Finished) -> None:
    declare(store, "failures", max_messages=1)
    declare(store, dead_letter_queue="failures")
    publish(store, "failures")
    publish(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.DEAD, counted=True, reason="no")
    store.operations.prioritise([publish(store)], 9)

    assert finished() == []


def test_a_void_verdict_leaves_no_row(store: Store, orders: str, session: int, finished: Finished) -> None:
    publish(store)
    [message] = claim(store, session)
    store.operations.release_held([message.id])

    settle(store, session, message, Verdict.ACCEPT)

    assert finished() == []


def test_a_queue_without_history_leaves_none(store: Store, session: int, finished: Finished) -> None:
    declare(store, history_days=0)
    publish(store)
    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)
    store.operations.cancel([publish(store)])

    assert finished() == []


def test_a_message_that_was_cancelled_or_forwarded_while_it_was_held_says_so(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    for _ in range(3):
        publish(store)
    revoked, done, sent = claim(store, session, credit=3)
    verdicts = [verdict(revoked, Verdict.CANCEL), verdict(done, Verdict.ACCEPT), verdict(sent, Verdict.FORWARD)]

    store.settlements.settle(session, verdicts)

    assert {row.message_id: row.outcome for row in finished()} == {
        revoked.message_id: Outcome.CANCELLED,
        done.message_id: Outcome.ACCEPTED,
        sent.message_id: Outcome.FORWARDED,
    }


def test_the_body_is_kept_where_the_queue_says_so(store: Store, session: int, finished: Finished) -> None:
    declare(store, history_body=True)
    publish(store, body=b"one")
    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)
    store.operations.cancel([publish(store, body=b"two")])

    assert [bytes(row.body) for row in finished()] == [b"one", b"two"]  # type: ignore[arg-type]


def test_history_is_pruned_after_the_days_its_queue_keeps_it(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    declare(store, "brief", history_days=0.5)
    for name in (orders, "brief"):
        publish(store, name)
        settle(store, session, claim(store, session, name)[0], Verdict.ACCEPT)

    pass_time(store, 86400 * 0.6)
    assert store.retention.prune() == 1
    assert [row.queue_name for row in finished()] == [orders]
    pass_time(store, 86400 * 7)
    assert store.retention.prune() == 1


def test_a_queue_that_keeps_nothing_has_nobody_walk_what_the_others_keep(
    store: Store, orders: str, session: int, finished: Finished
) -> None:
    declare(store, "noisy")
    store.operations.cancel([publish(store, "noisy"), publish(store, orders)])
    store.deletions.delete_queue("noisy")
    declare(store, "noisy", history_days=0)
    store.operations.cancel([publish(store, "noisy")])
    pass_time(store, 86400 * 6)

    assert (store.retention.prune(), {row.queue_name for row in finished()}) == (0, {"noisy", orders})
    assert (store.retention.prune(whole=True), {row.queue_name for row in finished()}) == (1, {orders})


def test_what_a_queue_kept_until_it_keeps_nothing_goes_after_a_week(store: Store, finished: Finished) -> None:
    declare(store)
    store.operations.cancel([publish(store)])
    store.deletions.delete_queue("orders")
    declare(store, history_days=0)
    pass_time(store, 86400 * 7.1)

    assert (store.retention.prune(), finished()) == (1, [])


def test_pruning_stops_at_its_limit(store: Store, orders: str, session: int, finished: Finished) -> None:
    for _ in range(3):
        store.operations.cancel([publish(store)])
    pass_time(store, 86400 * 8)

    assert store.retention.prune(limit=2) == 2
    assert len(finished()) == 1


# Attempts


def test_a_failure_becomes_an_attempt_with_its_traceback(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    publish(store, correlation_id="c")
    [message] = claim(store, session)
    failure = Failure("ValueError: no", "detail", "Traceback...", "shop.errors.Order.DoesNotExist")

    settle(store, session, message, Verdict.RELEASE, counted=True, failure=failure)

    [row] = attempts()
    assert (row.message_id, row.correlation_id, row.queue_name) == (message.message_id, "c", orders)
    assert (row.number, row.error, row.detail, row.traceback) == (1, "ValueError: no", "detail", "Traceback...")
    assert (row.error_path, row.worker) == ("shop.errors.Order.DoesNotExist", "worker")


@pytest.mark.parametrize("how", [Verdict.RELEASE, Verdict.DEAD], ids=lambda how: how.value)
@pytest.mark.parametrize("counted", [True, False], ids=["counted", "uncounted"])
@pytest.mark.usefixtures("orders")
def test_attempts_are_numbered_by_delivery(
    store: Store, session: int, attempts: Attempts, how: Verdict, counted: bool
) -> None:
    publish(store, type="order.paid")
    settle(store, session, claim(store, session)[0], Verdict.RELEASE, counted=True, failure=Failure("first"))

    settle(store, session, claim(store, session)[0], how, counted=counted, failure=Failure("second"))

    assert [(row.error, row.number) for row in attempts()] == [("first", 1), ("second", 2)]
    assert {row.type for row in attempts()} == {"order.paid"}


def test_the_failures_of_a_batch_are_all_recorded(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    for _ in range(3):
        publish(store)
    messages = claim(store, session)

    store.settlements.settle(
        session,
        [verdict(item, Verdict.DEAD, counted=True, failure=Failure(f"no {item.id}")) for item in messages],
    )

    assert {(row.message_id, row.error) for row in attempts()} == {
        (item.message_id, f"no {item.id}") for item in messages
    }


def test_a_void_verdict_s_failure_is_not_recorded(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    publish(store)
    [message] = claim(store, session)
    store.operations.release_held([message.id])

    settle(store, session, message, Verdict.RELEASE, counted=True, failure=Failure("late"))

    assert attempts() == []


def test_a_failure_may_be_recorded_apart_from_its_verdict(store: Store, attempts: Attempts) -> None:
    message_id = uuid4()
    failure = Failure("KeyError", "d", "t", "builtins.KeyError")

    store.settlements.record_attempt(failure, queue_name="orders", number=3, worker="w", message_id=message_id)
    store.settlements.record_attempt(
        failure, queue_name="orders", number=4, worker="w", correlation_id="c", type="t"
    )

    assert [(row.message_id, row.correlation_id, row.type, row.number, row.error) for row in attempts()] == [
        (message_id, None, "", 3, "KeyError"),
        (None, "c", "t", 4, "KeyError"),
    ]
    assert {row.error_path for row in attempts()} == {"builtins.KeyError"}


def test_no_text_of_a_failure_can_stop_a_verdict(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    nasty = "caf\udce9 \x00 " + "é" * 300
    publish(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.DEAD, reason=nasty, failure=Failure(nasty, nasty, nasty, nasty))
    store.settlements.record_attempt(Failure(nasty, nasty, nasty, nasty), queue_name=orders, number=1, worker="w")

    for row in attempts():
        assert row.detail == row.traceback == "caf\\udce9 \\x00 " + "é" * 300
        assert len(row.error) == len(row.error_path) == 255


def test_of_megabytes_that_an_exception_quotes_both_ends_are_kept(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    long = "first line\n" + "é" * 3_000_000 + "\nlast line"
    publish(store)
    [message] = claim(store, session)

    settle(store, session, message, Verdict.DEAD, reason=long, failure=Failure("ValueError", long, long))
    store.settlements.record_attempt(Failure("ValueError", long, long), queue_name=orders, number=1, worker="w")

    assert len(attempts()) == 2
    for row in attempts():
        assert row.detail == row.traceback
        assert row.detail.startswith("first line\n")
        assert "characters left out" in row.detail
        assert row.detail.endswith("\nlast line")
        assert len(row.detail) <= 20_000


def test_old_attempts_are_pruned_once_their_message_is_gone(
    store: Store, orders: str, session: int, attempts: Attempts
) -> None:
    for _ in range(2):
        publish(store)
    stays, goes = claim(store, session)
    for message in (stays, goes):
        settle(store, session, message, Verdict.RELEASE, counted=True, failure=Failure("no"))
    store.operations.cancel([goes.id])

    pass_time(store, 86400 * 29)
    store.retention.prune()
    assert len(attempts()) == 2
    pass_time(store, 86400 * 2)
    store.retention.prune()
    assert [row.message_id for row in attempts()] == [stays.message_id]
