"""A follower is shown every message that arrives, once, in any state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.delivery.follower import PAGE, Follower
from django_mq.engine.decisions.verdict import Verdict
from tests.stores.builders import a_message, claim, declare, ids, publish, settle
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER


def test_what_is_there_is_shown_and_then_what_arrives(store: Store, orders: str) -> None:
    declare(store, "bills")
    follower = Follower(store, orders)
    first = [publish(store, priority=priority) for priority in (1, 9)]
    publish(store, "bills")

    shown = [ids(list(follower.look())) for _ in range(3)]
    later = publish(store, delay_seconds=100)

    assert shown == [first, [], []]
    assert ids(list(follower.look())) == [later]


def test_a_message_that_comes_back_is_not_shown_again(store: Store, orders: str, session: int) -> None:
    follower = Follower(store, orders)
    published = publish(store)
    assert ids(list(follower.look())) == [published]

    [held] = claim(store, session)
    shown = ids(list(follower.look()))
    settle(store, session, held, Verdict.RELEASE)

    assert shown + ids(list(follower.look())) == []


def test_more_than_one_page_is_shown_in_the_order_of_arrival(store: Store, orders: str) -> None:
    published = store.publications.append_many([a_message() for _ in range(PAGE + 10)])

    assert ids(list(Follower(store, orders).look())) == published


def test_a_queue_that_is_not_there_has_nothing(store: Store) -> None:
    assert list(Follower(store, "nowhere").look()) == []
