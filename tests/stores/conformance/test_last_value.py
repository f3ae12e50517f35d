"""Last-value queues: of the messages with one key, only the latest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import InvalidMessage
from django_mq.stores.records import SessionInfo
from tests.stores.builders import a_message, claim, declare, ids, lose_worker, open_session, settle, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed

READY = 1
REPLACED = 5


@pytest.fixture
def prices(store: Store) -> str:
    """A queue that keeps the last price of each article."""
    return declare(store, "prices", kind="last_value", last_value_key="sku")


def a_price(sku: Any, **given: Any) -> Any:
    return a_message("prices", headers=json.dumps({"sku": sku}), **given)


def put(store: Store, *skus: Any, **given: Any) -> list[int]:
    return [id_ for sku in skus for id_ in store.admission.append([a_price(sku, **given)])]


def present(store: Store) -> list[int]:
    return ids(store.browser.browse("prices", states=[READY]))


def test_a_newer_value_replaces_the_older_one_at_the_tail(
    store: Store, prices: str, finished: Callable[[], list[History]]
) -> None:
    _, pears, apples = put(store, "apple", "pear", "apple")

    assert present(store) == [pears, apples]
    assert [row.outcome for row in finished()] == [REPLACED]


def test_of_many_at_once_the_last_of_each_key_stays(store: Store, prices: str) -> None:
    added = store.admission.append([a_price(sku) for sku in ("a", "b", "a", "a", "b")])

    assert present(store) == added[3:]


def test_a_message_without_the_key_replaces_nothing(store: Store, prices: str) -> None:
    added = [*put(store, None, None), *store.admission.append([a_message("prices"), a_message("prices")])]

    assert present(store) == added


def test_numbers_and_texts_are_keys_as_they_are_written(store: Store, prices: str) -> None:
    _, seven = put(store, 7, "7")

    assert present(store) == [seven]


def test_a_value_that_is_held_stays_until_it_is_settled(store: Store, prices: str, session: int) -> None:
    put(store, "apple")
    [older] = claim(store, session, prices)
    [newer] = put(store, "apple")

    assert present(store) == [newer]
    assert settle(store, session, older, Verdict.ACCEPT) == frozenset()
    assert present(store) == [newer]


def test_an_older_value_that_is_given_back_is_given_up(
    store: Store, prices: str, session: int, finished: Callable[[], list[History]]
) -> None:
    put(store, "apple", "pear")
    older, pear = claim(store, session, prices)
    [newer] = put(store, "apple")

    settle(store, session, older, Verdict.RELEASE)
    settle(store, session, pear, Verdict.RELEASE)

    assert present(store) == [pear.id, newer]
    assert [row.outcome for row in finished()] == [REPLACED]


def leave(store: Store, session: int, _: Claimed) -> None:
    store.sessions.close(session)


def forget(store: Store, session: int, _: Claimed) -> None:
    store.claims.resync(session, [])


def take_back(store: Store, _: int, older: Claimed) -> None:
    store.operations.release_held([older.id])


def die(store: Store, session: int, _: Claimed) -> None:
    lose_worker(store, session)


@pytest.mark.parametrize("come_back", [leave, forget, take_back, die])
def test_an_older_value_is_replaced_however_it_comes_back(
    store: Store,
    prices: str,
    session: int,
    finished: Callable[[], list[History]],
    come_back: Callable[[Store, int, Claimed], None],
) -> None:
    put(store, "apple")
    [older] = claim(store, session, prices)
    [newer] = put(store, "apple")

    come_back(store, session, older)

    assert present(store) == [newer]
    assert [row.outcome for row in finished()] == [REPLACED]


def test_an_older_value_that_comes_again_later_is_replaced_as_well(
    store: Store, prices: str, session: int
) -> None:
    put(store, "apple")
    [older] = claim(store, session, prices)
    settle(store, session, older, Verdict.RELEASE, delay_seconds=60, counted=True)

    [newer] = put(store, "apple")

    assert ids(store.browser.browse(prices, states=[0, 1])) == [newer]


def test_an_older_value_whose_worker_died_goes_to_no_expiry_queue(store: Store, session: int) -> None:
    declare(store, "too late")
    declare(store, "rates", kind="last_value", last_value_key="sku", expiry_queue="too late")
    store.admission.append([a_message("rates", headers='{"sku": "euro"}')])
    claim(store, session, "rates")
    store.admission.append([a_message("rates", headers='{"sku": "euro"}')])
    lose_worker(store, session)

    other = open_session(store)
    for message in claim(store, other, "rates", slots=1):
        settle(store, other, message, Verdict.EXPIRE if message.expired else Verdict.ACCEPT)

    assert ids(store.browser.browse("too late", states=[0, 1, 2, 3])) == []


def test_a_value_that_was_given_back_before_is_replaced(store: Store, prices: str, session: int) -> None:
    put(store, "apple")
    [older] = claim(store, session, prices)
    settle(store, session, older, Verdict.RELEASE)

    [newer] = put(store, "apple")

    assert present(store) == [newer]


def test_a_dead_value_stays_where_it_is(store: Store, prices: str, session: int) -> None:
    put(store, "apple")
    [older] = claim(store, session, prices)
    settle(store, session, older, Verdict.DEAD, reason="bad")

    put(store, "apple")

    assert ids(store.browser.browse(prices, states=[3])) == [older.id]


def test_a_dead_value_that_a_revived_worker_gives_back_is_replaced(store: Store, session: int) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku", max_attempts=1)
    put(store, "apple")
    claim(store, session, "prices")
    lose_worker(store, session)
    silent = open_session(store)
    [older] = claim(store, silent, "prices")
    lose_worker(store, silent)
    [newer] = put(store, "apple")

    info = SessionInfo(name="worker", kind="native", host="host", pid=1, version="1")
    assert store.sessions.revive(silent, info, [older.receipt], deadline_seconds=60)
    assert settle(store, silent, older, Verdict.RELEASE) == frozenset()

    assert ids(store.browser.browse("prices", states=[0, 1, 2, 3])) == [newer]


@pytest.mark.parametrize("ttl_seconds", [None, 60])
def test_a_value_that_was_replaced_before_it_failed_for_good_keeps_its_time_to_live(
    store: Store, prices: str, session: int, ttl_seconds: float | None
) -> None:
    declare(store, "other")
    put(store, "apple", ttl_seconds=ttl_seconds)
    [held] = claim(store, session, prices)
    put(store, "apple")
    settle(store, session, held, Verdict.DEAD)

    assert len(store.operations.move([held.id], "other")) == 1
    [moved] = claim(store, session, "other")
    assert (moved.expires_at, moved.expired) == (held.expires_at, False)


def test_a_replaced_value_whose_verdict_cannot_be_written_is_over(
    store: Store, prices: str, session: int, finished: Callable[[], list[History]]
) -> None:
    put(store, "apple")
    [held] = claim(store, session, prices)
    put(store, "apple")

    store.settlements.give_back(session, [verdict(held, Verdict.ACCEPT)])
    store.maintenance.expire()

    assert [row.outcome for row in finished()] == [REPLACED]


def test_a_dead_value_is_redriven_beside_a_held_one_that_was_replaced(
    store: Store, prices: str, session: int
) -> None:
    [dead] = put(store, "apple")
    settle(store, session, *claim(store, session, prices), Verdict.DEAD)
    put(store, "apple")
    [held] = claim(store, session, prices)
    put(store, "apple")
    settle(store, session, *claim(store, session, prices), Verdict.DEAD)

    assert len(store.operations.redrive([dead])) == 1
    assert present(store) == [dead]
    settle(store, session, held, Verdict.RELEASE)
    assert present(store) == [dead]


def test_a_value_that_changes_its_priority_is_still_replaced(store: Store, prices: str) -> None:
    put(store, "apple")
    store.operations.prioritise(present(store), 9)

    [newer] = put(store, "apple")

    assert present(store) == [newer]


def test_a_value_that_waits_for_its_next_attempt_is_replaced_with_another_priority_too(
    store: Store, prices: str, session: int
) -> None:
    put(store, "apple")
    [failed] = claim(store, session, prices)
    settle(store, session, failed, Verdict.RELEASE, delay_seconds=100.0)
    store.operations.prioritise([failed.id], 9)

    newer = put(store, "apple")

    assert ids(store.browser.browse("prices", states=[0, READY])) == newer


def test_a_key_that_is_too_long_is_refused(store: Store, prices: str) -> None:
    with pytest.raises(InvalidMessage, match="256 characters long; at most 255"):
        put(store, "a" * 256)

    assert present(store) == []


def test_a_dead_value_that_its_worker_releases_late_is_replaced_by_a_later_one(
    store: Store, finished: Callable[[], list[History]]
) -> None:
    declare(store, "prices", kind="last_value", last_value_key="sku", max_attempts=1)
    put(store, "apple")
    for _ in range(2):
        session = open_session(store)
        [late] = claim(store, session, "prices")
        lose_worker(store, session)
    [newer] = put(store, "apple")

    settle(store, session, late, Verdict.RELEASE)

    assert present(store) == [newer]
    assert [row.outcome for row in finished()] == [REPLACED]
