"""A session remembers how far it has come in a queue, and is never led past a message by it."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.delivery.publisher import append
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.limits import concurrency, declared
from django_mq.stores.postgresql.claims import (
    LEVELS,
    START,
    STEP_SECONDS,
    WORTH_MOVING,
    ScanCursor,
    SelectingCursor,
)
from django_mq.stores.records import ClaimRequest, Settlement
from django_mq.stores.registry import private_store
from tests.stores.builders import a_message, claim, declare, ids, open_session, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimResult

QUEUE = "orders"
PATIENCE_SECONDS = 120.0


# The cursor alone


class Entry:
    """What a cursor looks at in a claimed message."""

    def __init__(self, level: int, id_: int, place: int = 0) -> None:
        self.level, self.id, self.place = level, id_, place


def entries(level: int, *numbers: int) -> list[Claimed]:
    return [Entry(level, number) for number in numbers]  # type: ignore[misc]


def passed(cursor: ScanCursor, now: float, *, writers: frozenset[str] = frozenset()) -> None:
    """Claim many of level 0 and let the cursor aim behind them."""
    cursor.has_looked(entries(0, *range(1, WORTH_MOVING + 1)), cut=True, now=now, seconds=0.0)
    assert cursor.wants_step(now)
    cursor.step(writers, now)


def place_of(cursor: ScanCursor, level: int) -> tuple[int, int]:
    return {known: (place, id_) for known, place, id_ in cursor.places()}[level]


def test_a_cursor_begins_at_the_head_of_every_level_the_highest_first() -> None:
    assert ScanCursor().places() == [(level, *START) for level in LEVELS]


def test_a_cursor_stays_until_a_later_claim_has_found_nothing_before_it() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)
    assert place_of(cursor, 0) == START

    cursor.advance(entries(0, WORTH_MOVING + 1), cut=True)

    assert place_of(cursor, 0) == (0, WORTH_MOVING)


def test_a_cursor_waits_for_everybody_who_was_writing_and_for_nobody_who_came_later() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0, writers=frozenset({"a", "b"}))
    cursor.advance(entries(0, 300), cut=True)
    cursor.step(frozenset({"b", "c"}), 1.0)
    cursor.advance(entries(0, 301), cut=True)
    assert place_of(cursor, 0) == START

    cursor.step(frozenset({"c"}), 2.0)
    cursor.advance(entries(0, 302), cut=True)

    assert place_of(cursor, 0) == (0, WORTH_MOVING)


def test_a_claim_that_was_cut_moves_the_cursor_no_further_than_it_has_looked() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)

    cursor.advance(entries(0, 7), cut=True)  # a publisher that was slow to commit

    assert place_of(cursor, 0) == (0, 7)


def test_a_claim_that_was_cut_in_a_higher_level_moves_nothing_in_a_lower_one() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)

    cursor.advance(entries(5, 400), cut=True)

    assert place_of(cursor, 0) == START


def test_a_look_that_was_cut_brings_the_cursor_back_to_where_it_ended() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)
    cursor.advance(entries(0, 300), cut=True)

    cursor.has_looked(entries(0, 20, 21), cut=True, now=1.0, seconds=0.0)

    assert place_of(cursor, 0) == (0, 21)


def test_a_look_that_ended_in_a_higher_level_leaves_the_lower_ones_unknown() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)
    cursor.advance(entries(0, 300), cut=True)

    cursor.has_looked(entries(5, 400), cut=True, now=1.0, seconds=0.0)

    assert place_of(cursor, 0) == START


def test_a_costly_look_is_repeated_less_often() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)
    cursor.advance(entries(0, 300), cut=True)
    assert cursor.seconds_until_look(0.0) == pytest.approx(0.5)

    cursor.has_looked([], cut=False, now=1.0, seconds=0.5)

    assert cursor.seconds_until_look(1.0) == pytest.approx(10.0)


def test_a_cursor_looks_when_a_message_is_due_that_any_claim_since_the_last_look_has_named() -> None:
    cursor = ScanCursor()
    passed(cursor, 0.0)
    cursor.advance(entries(0, 300), cut=True)

    cursor.expect(0.3, 0.0)
    cursor.expect(None, 0.2)  # another session has made it ready
    assert cursor.seconds_until_look(0.2) == pytest.approx(0.1)

    cursor.has_looked(entries(0, 301), cut=True, now=0.3, seconds=0.0)
    assert cursor.seconds_until_look(0.3) == pytest.approx(0.5)


# The store


@pytest.fixture
def stores() -> Iterator[tuple[Store, Store]]:
    """Two stores, each over a connection of its own; the first one's session is to use its cursor."""
    with closing(private_store("postgresql")) as first, closing(private_store("postgresql")) as second:
        declare(first, QUEUE, kind="priority", levels=10)
        yield first, second


pytestmark = pytest.mark.django_db(databases=["postgresql"], transaction=True)


def settle_and_claim(
    store: Store, session: int, done: list[Claimed], *, credit: int = 100, full_scan: bool = False
) -> ClaimResult:
    accepted = [Settlement(message.id, message.claim, Verdict.ACCEPT) for message in done]
    request = ClaimRequest(queues=(QUEUE,), credit=credit, promote=False, full_scan=full_scan)
    return store.claims.settle_and_claim(session, accepted, request)


def move_on(store: Store, session: int, publisher: Store) -> list[int]:
    """Let messages pass until the cursor has moved; return the ids of those that passed."""
    end, found, done = time.monotonic() + PATIENCE_SECONDS, [], []
    while place_of(store.claims.cursors[QUEUE], 0) == START:  # type: ignore[attr-defined]
        assert time.monotonic() < end
        publisher.publications.append_many([a_message(QUEUE, priority=0) for _ in range(100)])
        done = settle_and_claim(store, session, done).claimed
        found += ids(done)
    settle_and_claim(store, session, done, credit=1)
    return found


def test_a_cursor_moves_as_messages_pass(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)

    found = move_on(store, session, publisher)

    assert found == sorted(found)
    assert len(found) > WORTH_MOVING


@pytest.fixture
def limited() -> Iterator[None]:
    concurrency(QUEUE, 1, key="group")
    yield
    declared.forget(QUEUE)
    conf.remove_extension(declared.NAME)


@pytest.mark.usefixtures("limited")
def test_with_limits_a_session_passes_what_is_parked_and_neither_a_slow_publisher_nor_what_comes_back(
    stores: tuple[Store, Store],
) -> None:
    store, other = stores
    early = publish(other, QUEUE, priority=0)
    elsewhere, session = open_session(other), open_session(store)
    [first] = claim(other, elsewhere, QUEUE)
    for _ in range(5):
        publish(other, QUEUE, priority=0, group_key="over")
    settle_and_claim(store, session, [])

    def pass_by(until: int) -> None:
        """Let messages without a group pass, one for each claim, until the cursor is behind this one."""
        end = time.monotonic() + PATIENCE_SECONDS
        done: list[Claimed] = []
        while place_of(store.claims.cursors[QUEUE, ()], 0) <= (0, until):  # type: ignore[attr-defined]
            assert time.monotonic() < end
            publish(other, QUEUE, priority=0)
            done = settle_and_claim(store, session, done).claimed
        settle_and_claim(store, session, done, credit=1)

    pass_by(publish(other, QUEUE, priority=0, group_key="over"))
    assert store.queues.counts()[QUEUE].parked == 5
    release(other, elsewhere, first)
    assert eventually(store, session) == [early]

    with closing(private_store("postgresql")) as slow:
        with slow.database.transaction():
            late = publish(slow, QUEUE, priority=0)
            done: list[Claimed] = []
            begin = time.monotonic()
            while not done or time.monotonic() < begin + 5 * STEP_SECONDS:
                publish(other, QUEUE, priority=0)
                done = settle_and_claim(store, session, done).claimed
            assert place_of(store.claims.cursors[QUEUE, ()], 0) < (0, late)  # type: ignore[attr-defined]
        assert ids(settle_and_claim(store, session, done).claimed) == [late]


def test_a_higher_level_is_first_also_for_a_session_that_has_come_far(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    move_on(store, session, publisher)
    low, high = publish(publisher, QUEUE, priority=0), publish(publisher, QUEUE, priority=9)

    result = settle_and_claim(store, session, [], credit=1)

    assert ids(result.claimed) == [high]
    assert ids(settle_and_claim(store, session, [], credit=1).claimed) == [low]


def test_a_publisher_that_is_slow_to_commit_is_never_passed(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    with closing(private_store("postgresql")) as slow:
        with slow.database.transaction():
            late = publish(slow, QUEUE, priority=0)
            done: list[Claimed] = []
            begin = time.monotonic()
            while not done or time.monotonic() < begin + 5 * STEP_SECONDS:
                publisher.publications.append_many([a_message(QUEUE, priority=0) for _ in range(100)])
                done = settle_and_claim(store, session, done).claimed
            assert place_of(store.claims.cursors[QUEUE], 0) < (0, late)  # type: ignore[attr-defined]

        result = settle_and_claim(store, session, done, credit=1)

    assert ids(result.claimed) == [late]


def test_what_comes_back_is_found_at_once_by_whoever_is_told_and_soon_by_others(
    stores: tuple[Store, Store],
) -> None:
    store, other = stores
    publish(store, QUEUE, priority=0)
    publish(store, QUEUE, priority=0)
    elsewhere = open_session(other)
    first, second = claim(other, elsewhere, QUEUE)
    session = open_session(store)
    move_on(store, session, other)

    release(other, elsewhere, first)
    assert ids(settle_and_claim(store, session, [], full_scan=True).claimed) == [first.id]

    release(other, elsewhere, second)
    assert eventually(store, session) == [second.id]


def release(store: Store, session: int, message: Claimed) -> None:
    assert not store.settlements.settle(session, [Settlement(message.id, message.claim, Verdict.RELEASE)])


def eventually(store: Store, session: int) -> list[int]:
    """Claim until something is found, or the store is sure that there is nothing."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        result = settle_and_claim(store, session, [])
        if result.claimed or result.full_scan:
            return ids(result.claimed)
        assert result.next_due_seconds is not None
    raise AssertionError("The store was never sure.")


def test_what_a_session_gives_back_itself_is_found_by_its_next_claim(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    early = publish(store, QUEUE, priority=0)
    [message] = claim(store, session, QUEUE)
    move_on(store, session, publisher)

    store.claims.settle_and_claim(session, [Settlement(message.id, message.claim, Verdict.RELEASE)], None)

    assert ids(settle_and_claim(store, session, []).claimed) == [early]


def test_a_due_message_that_another_session_makes_ready_is_first_for_all(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    move_on(store, session, publisher)
    due = publish(publisher, QUEUE, priority=0, delay_seconds=0.2)
    for _ in range(3):
        publish(publisher, QUEUE, priority=0)
    settle_and_claim(store, session, [], credit=1)  # names the time

    end = time.monotonic() + PATIENCE_SECONDS
    while not publisher.maintenance.promote():
        assert time.monotonic() < end

    assert ids(settle_and_claim(store, session, [], credit=1).claimed) == [due]


@pytest.mark.parametrize("selector", ["", "w < 1000000"])
def test_the_least_value_of_a_sorted_queue_is_first_however_far_a_session_has_come(
    stores: tuple[Store, Store], selector: str
) -> None:
    store, publisher = stores
    declare(publisher, "sorted", kind="fifo", sort_key="w")
    session = open_session(store)
    done: list[Claimed] = []
    wanted = {"sorted": [Wanted(Selector(selector), 100)]} if selector else {}

    def claim_some(credit: int) -> list[Claimed]:
        accepted = [Settlement(message.id, message.claim, Verdict.ACCEPT) for message in done]
        request = ClaimRequest(queues=("sorted",), credit=credit, promote=False, wanted=wanted)
        return store.claims.settle_and_claim(session, accepted, request).claimed

    def publish_values(*values: int) -> None:
        messages = [a_message("sorted", headers=json.dumps({"w": value})) for value in values]
        append(publisher, messages)

    begin, value = time.monotonic(), 1000
    while not done or time.monotonic() < begin + 5 * STEP_SECONDS:
        publish_values(*range(value, value + 100))
        value += 100
        done = claim_some(100)
    publish_values(*range(value, value + 10))
    for least in (7, -7):
        publish_values(least)
        done = claim_some(1)
        assert [json.loads(message.headers)["w"] for message in done] == [least]


# Claims by selectors


def test_a_cursor_by_selectors_passes_what_was_not_claimed() -> None:
    cursor = SelectingCursor()
    assert cursor.wants_step(0.0)
    cursor.take_step([(500,)], [])

    cursor.has_looked(entries(3, 300), cut=False, now=0.0, seconds=0.0)

    assert cursor.places() == [(level, 0, 500) for level in LEVELS]


def test_a_cursor_by_selectors_stays_before_what_an_open_transaction_may_commit() -> None:
    cursor = SelectingCursor()
    cursor.take_step([(500,)], [("tx",)])
    cursor.has_looked([], cut=False, now=0.0, seconds=0.0)
    assert place_of(cursor, 0) == START

    cursor.take_step([(900,)], [("other",)])
    cursor.has_looked([], cut=False, now=1.0, seconds=0.0)

    assert place_of(cursor, 0) == (0, 500)


def test_a_cursor_by_selectors_ends_where_a_claim_was_cut() -> None:
    cursor = SelectingCursor()
    cursor.take_step([(500,)], [])

    cursor.has_looked(entries(3, 300), cut=True, now=0.0, seconds=0.0)

    assert (place_of(cursor, 5), place_of(cursor, 3), place_of(cursor, 0)) == ((0, 500), (0, 300), START)


def wanted_claim(store: Store, session: int, *, credit: int = 10, **given: Any) -> ClaimResult:
    wanted = {QUEUE: [Wanted(Selector("a = 1"), credit)]}
    request = ClaimRequest(queues=(QUEUE,), credit=credit, promote=False, wanted=wanted, **given)
    return store.claims.settle_and_claim(session, [], request)


def selecting_cursor(store: Store) -> SelectingCursor:
    [cursor] = [each for each in store.claims.cursors.values() if isinstance(each, SelectingCursor)]  # type: ignore[attr-defined]
    return cursor


def test_the_second_claim_by_selectors_begins_behind_what_the_first_has_seen(
    stores: tuple[Store, Store],
) -> None:
    store, publisher = stores
    session = open_session(store)
    others = publisher.publications.append_many([a_message(QUEUE, headers='{"a": 2}') for _ in range(50)])
    first = publish(publisher, QUEUE, headers='{"a": 1}')

    assert ids(wanted_claim(store, session).claimed) == [first]
    assert place_of(selecting_cursor(store), 4)[1] >= others[-1]

    second = publish(publisher, QUEUE, headers='{"a": 1}')
    result = wanted_claim(store, session)
    assert (ids(result.claimed), result.full_scan) == ([second], False)
    higher = publish(publisher, QUEUE, priority=9, headers='{"a": 1}')
    assert ids(wanted_claim(store, session).claimed) == [higher]


def test_a_message_of_an_open_transaction_is_not_passed_by_a_claim_by_selectors(
    stores: tuple[Store, Store],
) -> None:
    store, publisher = stores
    session = open_session(store)
    with publisher.database.transaction():  # type: ignore[attr-defined]
        early = publish(publisher, QUEUE, headers='{"a": 1}')
        publish(store, QUEUE, headers='{"a": 2}')
        assert wanted_claim(store, session).claimed == []
        assert place_of(selecting_cursor(store), 4) == START

    assert ids(wanted_claim(store, session).claimed) == [early]


def test_a_message_that_comes_back_is_found_by_a_full_scan(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session, other = open_session(store), open_session(publisher, "other")
    publish(publisher, QUEUE, headers='{"a": 1}')
    [held] = claim(publisher, other, QUEUE)
    assert wanted_claim(store, session).claimed == []
    publisher.settlements.settle(other, [Settlement(held.id, held.claim, Verdict.RELEASE)])

    passing = wanted_claim(store, session)
    found = passing.claimed or wanted_claim(store, session, full_scan=True).claimed

    assert ids(found) == [held.id]


def two_handlers(store: Store, session: int, *limits: int) -> ClaimResult:
    wanted = [Wanted(Selector(text), limit) for text, limit in zip(("a = 1", "b = 1"), limits, strict=True)]
    request = ClaimRequest(queues=(QUEUE,), credit=sum(limits), promote=False, wanted={QUEUE: wanted})
    return store.claims.settle_and_claim(session, [], request)


def test_claims_for_several_handlers_begin_behind_what_none_of_them_wants(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    others = publisher.publications.append_many([a_message(QUEUE, headers='{"a": 2}') for _ in range(50)])
    first = [publish(publisher, QUEUE, headers=text) for text in ('{"b": 1}', '{"a": 1}')]

    assert ids(two_handlers(store, session, 9, 9).claimed) == first
    assert place_of(selecting_cursor(store), 4)[1] >= others[-1]

    second = [publish(publisher, QUEUE, headers=text) for text in ('{"a": 1}', '{"b": 1}')]
    result = two_handlers(store, session, 9, 9)
    assert (ids(result.claimed), result.full_scan) == (second, False)


def test_a_cursor_stays_before_what_a_full_handler_has_left(stores: tuple[Store, Store]) -> None:
    store, publisher = stores
    session = open_session(store)
    headers = ('{"a": 1}', '{"b": 1}', '{"a": 1}', '{"b": 1}')
    first, second, third, fourth = (publish(publisher, QUEUE, headers=text) for text in headers)

    assert ids(two_handlers(store, session, 1, 9).claimed) == [first, second, fourth]
    assert place_of(selecting_cursor(store), 4) <= (0, first)
    assert ids(two_handlers(store, session, 1, 9).claimed) == [third]
