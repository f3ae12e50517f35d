"""Looking: counts that stop at a limit, and pages in delivery order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.stores.records import Counts
from tests.stores.builders import a_message, claim, declare, ids, open_session, pass_time, publish, settle
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER

READY, SCHEDULED, CLAIMED, DEAD = (
    state.value for state in (State.READY, State.SCHEDULED, State.CLAIMED, State.DEAD)
)


def test_counts_tell_every_state_of_every_queue(store: Store, orders: str, session: int) -> None:
    declare(store, "empty")
    for _ in range(4):
        publish(store)
    publish(store, delay_seconds=10)
    dead, _claimed = claim(store, session, credit=2)
    settle(store, session, dead, Verdict.DEAD, reason="bad")

    counts = store.queues.counts()

    assert counts["empty"] == Counts()
    found = counts[orders]
    assert (found.scheduled, found.ready, found.claimed, found.dead, found.total) == (1, 2, 1, 1, 5)


def test_counts_tell_how_many_of_the_scheduled_are_due(store: Store, orders: str) -> None:
    publish(store)
    for seconds in (10, 20, 30):
        publish(store, delay_seconds=seconds)

    pass_time(store, 25)

    found = store.queues.counts()[orders]
    assert (found.scheduled, found.due, found.ready, found.deliverable) == (3, 2, 1, 3)
    assert store.queues.counts(limit=1)[orders].due == 1


def test_counts_tell_how_many_of_the_scheduled_are_retrying(store: Store, orders: str, session: int) -> None:
    for _ in range(3):
        publish(store)
    failed, failed_too, given_back = claim(store, session, credit=3)
    for claimed in (failed, failed_too):
        settle(store, session, claimed, Verdict.RELEASE, counted=True, delay_seconds=20)
    settle(store, session, given_back, Verdict.RELEASE, delay_seconds=20)
    publish(store, delay_seconds=30)

    found = store.queues.counts()[orders]
    assert (found.scheduled, found.retrying, found.total) == (4, 2, 4)
    assert store.queues.counts(limit=1)[orders].retrying == 1


def test_counts_may_be_asked_for_some_queues(store: Store, orders: str) -> None:
    declare(store, "bills")

    assert list(store.queues.counts([orders, "nowhere"])) == [orders]
    assert store.queues.counts([]) == {}


def test_the_queues_that_messages_are_in_are_named_whatever_their_state(
    store: Store, orders: str, session: int
) -> None:
    for name in ("waiting", "failed", "held", "empty"):
        declare(store, name)
    assert store.queues.occupied() == []
    publish(store)
    publish(store, "waiting", delay_seconds=10)
    publish(store, "failed")
    settle(store, session, claim(store, session, "failed")[0], Verdict.DEAD, reason="bad")
    publish(store, "held")
    claim(store, session, "held")

    occupied = store.queues.occupied()

    assert len(occupied) == len(set(occupied)) == 4


def test_no_message_is_in_a_state_that_is_not_known(store: Store, orders: str, session: int) -> None:
    publish(store)
    publish(store, delay_seconds=10)
    claim(store, session)

    assert store.queues.count_unknown(limit=10) == 0


def test_each_count_stops_at_the_limit(store: Store, orders: str) -> None:
    store.publications.append_many(
        [a_message() for _ in range(5)] + [a_message(delay_seconds=9) for _ in range(2)]
    )

    counts = store.queues.counts(limit=3)[orders]

    assert (counts.ready, counts.scheduled) == (3, 2)


def test_the_oldest_ready_message_has_an_age(store: Store, orders: str) -> None:
    publish(store, priority=1)
    pass_time(store, 60)
    publish(store, priority=9)
    pass_time(store, 30)

    assert store.queues.counts()[orders].oldest_ready_seconds == pytest.approx(90, abs=15)


def test_a_due_message_ages_from_its_due_time(store: Store, orders: str) -> None:
    publish(store, delay_seconds=60)
    pass_time(store, 100)
    store.maintenance.promote()

    assert store.queues.counts()[orders].oldest_ready_seconds == pytest.approx(40, abs=15)


def test_a_due_message_that_nobody_has_promoted_ages_too(store: Store, orders: str) -> None:
    publish(store, delay_seconds=60)
    publish(store, delay_seconds=3000)
    pass_time(store, 1000)

    counts = store.queues.counts()[orders]

    assert (counts.scheduled, counts.ready) == (2, 0)
    assert counts.oldest_ready_seconds == pytest.approx(940, abs=300)

    publish(store)
    pass_time(store, 1000)

    assert store.queues.counts()[orders].oldest_ready_seconds == pytest.approx(1940, abs=300)


def test_a_queue_with_nothing_ready_has_no_age(store: Store, orders: str) -> None:
    publish(store, delay_seconds=60)

    assert store.queues.counts()[orders].oldest_ready_seconds is None


def test_browsing_shows_messages_in_delivery_order_and_takes_none(store: Store, orders: str, session: int) -> None:
    for priority in (1, 9, 4, 9):
        publish(store, priority=priority)

    seen = store.browser.browse(orders, states=[READY])

    assert ids(seen) == ids(claim(store, session))


def test_browsing_shows_the_whole_message(store: Store, orders: str) -> None:
    message = a_message(
        body=b"\x01", headers='{"a": 1}', type="t", correlation_id="c", priority=8, delay_seconds=60
    )
    id_ = store.publications.append(message)

    [seen] = store.browser.browse(orders, states=[SCHEDULED])

    assert (seen.id, seen.message_id, seen.queue_name, seen.state) == (id_, message.message_id, orders, SCHEDULED)
    assert (seen.body, seen.headers, seen.type, seen.correlation_id) == (b"\x01", '{"a": 1}', "t", "c")
    assert (seen.priority, seen.attempts, seen.content_type, seen.dead_reason) == (8, 0, "json", "")
    assert seen.deliver_at is not None
    assert (seen.deliver_at - seen.published_at).total_seconds() == 60


def test_browsing_shows_only_the_states_asked_for(store: Store, orders: str, session: int) -> None:
    scheduled = publish(store, delay_seconds=60)
    publish(store)
    [dead] = claim(store, session)
    settle(store, session, dead, Verdict.DEAD, reason="bad")
    publish(store)
    [claimed] = claim(store, session)
    ready = publish(store)

    found = {
        state: ids(store.browser.browse(orders, states=[state])) for state in (SCHEDULED, READY, CLAIMED, DEAD)
    }

    assert found == {SCHEDULED: [scheduled], READY: [ready], CLAIMED: [claimed.id], DEAD: [dead.id]}
    assert len(store.browser.browse(orders, states=[SCHEDULED, READY, CLAIMED, DEAD])) == 4
    assert store.browser.browse(orders, states=[]) == []


def test_pages_follow_each_other_without_gap_or_repetition(store: Store, orders: str) -> None:
    for number in range(10):
        publish(store, priority=number % 3 + 3)
    publish(store, priority=4, delay_seconds=-5)
    everything = store.browser.browse(orders, states=[READY])

    pages = [store.browser.browse(orders, states=[READY], limit=4)]
    while pages[-1]:
        pages.append(store.browser.browse(orders, states=[READY], limit=4, after=pages[-1][-1]))

    assert ids([item for page in pages for item in page]) == ids(everything)
    assert [len(page) for page in pages] == [4, 4, 3, 0]


def test_the_next_page_is_found_even_when_the_last_message_is_gone(store: Store, orders: str) -> None:
    published = [publish(store) for _ in range(4)]
    page = store.browser.browse(orders, states=[READY], limit=2)
    store.operations.cancel(published[:2])

    assert ids(store.browser.browse(orders, states=[READY], after=page[-1])) == published[2:]


def test_an_unknown_queue_shows_nothing(store: Store) -> None:
    assert store.browser.browse("nowhere", states=[READY]) == []


def test_looking_does_not_disturb_those_who_claim(store: Store, orders: str) -> None:
    publish(store)
    session = open_session(store)
    store.browser.browse(orders, states=[READY])
    store.queues.counts()

    assert len(claim(store, session)) == 1
