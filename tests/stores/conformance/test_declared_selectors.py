"""Selectors declared for a queue: a claim gets what it gets without them, wherever a message came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery import publisher
from django_mq.engine.decisions.declared import NONE, SEVERAL, UNASKED, declared_in
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.stores.mysql.store import MySQLStore
from django_mq.stores.sql.declared import AGAIN_SECONDS, KNOWN_BY_ALL_SECONDS, PART
from tests.stores.builders import a_message, claim, declare, ids, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed
    from tests.stores.conftest import EditQueue

EU, US, LARGE = "region = 'eu'", "region = 'us'", "size > 10"
DECLARED = f"{EU}\n{US}\n{LARGE}"


def message(region: str, size: int = 1, queue: str = "orders", **given: Any) -> Any:
    return a_message(queue, headers=json.dumps({"region": region, "size": size}), **given)


def put(store: Store, *regions: str, **given: Any) -> None:
    """Publish as a program does: by the rules of the queue."""
    publisher.append(store, [message(region, **given) for region in regions])


def cover(store: Store) -> None:
    """Let maintenance ask all messages, and this process notice it."""
    store.maintenance.cover()
    pass_time(store, KNOWN_BY_ALL_SECONDS + 1)
    while store.maintenance.cover():
        pass
    assert store.queues.find("orders") is not None


def by(store: Store, session: int, *texts: str, credit: int = 100, **given: Any) -> list[Claimed]:
    wanted = {"orders": [Wanted(Selector(text), 100) for text in texts]}
    return claim(store, session, credit=credit, wanted=wanted, **given)


def region_of(item: Any) -> str:
    return str(json.loads(item.headers)["region"])


def is_indexed(store: Store) -> bool:
    return not isinstance(store, MemoryStore | MySQLStore)


def met(store: Any) -> list[int | None]:
    """What the index has about each message, less the number of the list; 0 for those not asked."""
    declared = declared_in(DECLARED)
    assert declared is not None
    found = store.database.fetch("SELECT meets FROM django_mq_message ORDER BY id", ())
    return [None if meets is None else meets and meets - declared.mark for (meets,) in found]


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_claim_gets_what_it_matches_whenever_it_was_published(store: Store, session: int, when: str) -> None:
    declare(store, selectors=DECLARED)
    if when == "before":
        put(store, "asia", "eu", "us", "eu")
    store.maintenance.cover()
    if when == "while":
        put(store, "asia", "eu", "us", "eu")
    cover(store)
    if when == "after":
        put(store, "asia", "eu", "us", "eu")

    assert [region_of(each) for each in by(store, session, EU)] == ["eu", "eu"]
    assert [region_of(each) for each in by(store, session, "region='us'")] == ["us"]
    assert [region_of(each) for each in claim(store, session)] == ["asia"]


def test_what_is_published_stands_in_the_index_at_once(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)

    put(store, "asia", "eu")
    publisher.append(store, [message("eu", 11), message("us", 11), message("asia", 11)])

    if is_indexed(store):
        found = met(store)
        assert (found[0], found[2:4]) == (NONE, [SEVERAL, SEVERAL])
        assert len({found[0], found[1], found[4], SEVERAL}) == 4
    assert len(by(store, session, LARGE)) == 3


def test_several_handlers_get_each_its_own_in_order(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    publisher.append(store, [message(region, size) for region in ("us", "eu", "asia") for size in (1, 11)])
    full = store.browser.browse("orders", states=[State.READY.value])

    found = by(store, session, EU, LARGE)

    chosen = [Selector(text) for text in (EU, LARGE)]
    assert ids(found) == [each.id for each in full if any(it.matches(each.as_message()) for it in chosen)]


def test_messages_that_several_match_are_claimed_in_order_with_the_others(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    for size, priority in ((1, 4), (11, 4), (1, 4), (11, 9), (1, 9)):
        publisher.append(store, [message("eu", size, priority=priority), message("us", 1, priority=priority)])
    full = store.browser.browse("orders", states=[State.READY.value])

    assert ids(by(store, session, EU, credit=4)) == [each.id for each in full if region_of(each) == "eu"][:4]


def test_a_selector_that_is_not_declared_and_a_handler_of_all_get_the_rest(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    put(store, "eu", "asia", "us")

    assert [region_of(each) for each in by(store, session, "region LIKE 'a%'", EU)] == ["eu", "asia"]
    assert [region_of(each) for each in by(store, session, EU, "")] == ["us"]


def test_a_declared_selector_takes_messages_beside_other_queues(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    declare(store, "plain")
    cover(store)
    put(store, "asia", "eu", "us", "eu")
    publish(store, "plain")

    wanted = {"orders": [Wanted(Selector(EU), 100)]}
    found = claim(store, session, "orders", "plain", wanted=wanted)

    assert sorted(each.queue_name for each in found) == ["orders", "orders", "plain"]


def test_messages_that_come_by_other_ways_are_claimed_before_and_after_they_are_asked(
    store: Store, session: int
) -> None:
    declare(store, selectors=DECLARED)
    declare(store, "elsewhere", dead_letter_queue="orders")
    cover(store)
    moved = [store.publications.append(message("eu", queue="elsewhere")) for _ in range(3)]
    dead = claim(store, session, "elsewhere", credit=1)[0]
    settle(store, session, dead, Verdict.DEAD, reason="no")
    store.operations.move(moved[1:], "orders")
    put(store, "eu", priority=1, delay_seconds=60.0)
    waiting = store.browser.browse("orders", states=[State.SCHEDULED.value])
    store.operations.prioritise(ids(waiting), 7)
    pass_time(store, 61)
    store.maintenance.promote()

    first = by(store, session, EU, credit=2)
    assert len(first) == 2
    if is_indexed(store):
        assert UNASKED in met(store)
    while store.maintenance.cover():
        pass
    assert len(by(store, session, EU)) == 2
    if is_indexed(store):
        assert [meets for meets in met(store) if meets == UNASKED] == []


def test_a_message_that_comes_back_is_claimed_again(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED, backoff_seconds=0.0)
    cover(store)
    put(store, "asia", "eu", "eu")
    for how in (Verdict.RELEASE, Verdict.DEAD):
        found = by(store, session, EU, credit=1)[0]
        settle(store, session, found, how, **({"reason": "no"} if how is Verdict.DEAD else {}))
    store.operations.redrive(ids(store.browser.browse("orders", states=[State.DEAD.value])))

    assert [region_of(each) for each in by(store, session, EU)] == ["eu", "eu"]


def test_another_list_is_used_when_all_messages_have_been_asked_by_it(
    store: Store, session: int, edit_queue: EditQueue
) -> None:
    declare(store, selectors=f"{EU}\n{US}")
    cover(store)
    publisher.append(store, [message("eu", 11), message("eu"), message("us", 11)])

    edit_queue("orders", selectors=f"{EU}\n{LARGE}")
    store.maintenance.cover()
    put(store, "eu")
    assert len(by(store, session, EU, credit=1)) == 1
    cover(store)
    put(store, "eu")

    assert len(by(store, session, LARGE)) == 1
    assert len(by(store, session, EU)) == 3


def test_without_the_list_the_queue_is_as_any_other(store: Any, session: int, edit_queue: EditQueue) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    put(store, "eu")
    edit_queue("orders", selectors="")
    put(store, "eu")
    cover(store)
    put(store, "eu")

    assert not store.maintenance.due_duties()["cover"]
    if is_indexed(store):
        assert met(store)[1:] == [UNASKED, None]
    assert len(by(store, session, EU)) == 3


def test_a_large_backlog_is_covered(store: Any, session: int, edit_queue: EditQueue) -> None:
    declare(store)
    store.publications.append_many(
        [message("eu" if number % 700 == 0 else "asia") for number in range(2 * PART + 10)]
    )
    edit_queue("orders", selectors=DECLARED)
    cover(store)

    if is_indexed(store):
        assert None not in met(store)
        assert store.queues.find("orders").declared is not None
    assert len(by(store, session, EU)) == 3


def test_what_a_process_of_the_version_before_publishes_is_found_later(store: Any, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    put(store, "eu")
    if is_indexed(store):
        store.database.execute("UPDATE django_mq_message SET meets = NULL")
    pass_time(store, AGAIN_SECONDS + 1)
    while store.maintenance.cover():
        pass

    assert len(by(store, session, EU)) == 1


def test_a_list_that_another_version_has_written_is_ignored(
    store: Store, session: int, edit_queue: EditQueue
) -> None:
    declare(store)
    edit_queue("orders", selectors="region MATCHES 'eu'")
    put(store, "eu", "us")
    cover(store)

    assert len(by(store, session, EU)) == 1


def test_many_are_published_together(store: Any, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    put(store, *["asia", "eu"] * 60)
    store.publications.append_alike(message("us"), [bytes([number]) * 16 for number in range(60)], [b"{}"] * 60)

    if is_indexed(store):
        assert set(met(store)[120:]) == {UNASKED}
    assert (len(by(store, session, EU)), len(by(store, session, US))) == (60, 60)


def test_a_session_that_ends_gives_its_messages_back(store: Store, session: int) -> None:
    declare(store, selectors=DECLARED)
    cover(store)
    put(store, "asia", "eu")
    other = open_session(store)
    assert len(by(store, other, EU)) == 1
    store.sessions.close(other)

    assert len(by(store, session, EU)) == 1


def test_what_is_published_together_is_asked_by_the_selectors_of_its_own_queue(store: Store, session: int) -> None:
    declare(store, "others", selectors=f"{US}\n{EU}\nAMQAddress = 'orders'")
    declare(store, selectors=f"{EU}\nAMQAddress = 'others'\n{US}")
    cover(store)
    publisher.append(store, [message(each, queue=name) for each in ("eu", "us") for name in ("others", "orders")])

    assert [region_of(each) for each in by(store, session, US)] == ["us"]
    found = claim(store, session, "others", wanted={"others": [Wanted(Selector(EU), 9)]})
    assert [region_of(each) for each in found] == ["eu"]
