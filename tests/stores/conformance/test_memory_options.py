"""Options that only queues in memory have: tables refuse them, before anything is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.options import MEMORY_OPTIONS
from django_mq.errors import StoreError, UnsupportedRule
from django_mq.inprocess.consumers.consumer import Consumer
from tests.stores.builders import a_message, claim, declare, ids, open_session, publish
from tests.stores.conftest import memory_store

if TYPE_CHECKING:
    from django_mq.stores.base import Store

SORTED: dict[str, Any] = {"kind": "fifo", "sort_key": "due", "sort_as_text": True}
#: A queue with each of them.
QUEUES: dict[str, dict[str, Any]] = {
    "sort_as_text": SORTED,
    "nondestructive": {"nondestructive": True},
}


@pytest.fixture
def in_memory() -> Store:
    """A store of queues in memory."""
    return memory_store()


@pytest.fixture
def session(in_memory: Store) -> int:
    """A worker session there."""
    return open_session(in_memory)


def put(store: Store, due: Any, **given: Any) -> int:
    headers = "{}" if due is None else json.dumps({"due": due})
    return store.admission.append([a_message(headers=headers, **given)])[0]


@pytest.mark.parametrize("name", MEMORY_OPTIONS)
def test_tables_refuse_an_option_that_they_do_not_know(store: Store, name: str) -> None:
    if not store.features.durable:
        assert declare(store, **QUEUES[name])
        return
    with pytest.raises(UnsupportedRule, match=f"the option {name} of a queue; leave it out"):
        declare(store, **QUEUES[name])

    assert store.queues.find("orders") is None


def test_a_sorted_queue_delivers_by_the_text_of_a_header(in_memory: Store) -> None:
    declare(in_memory, **SORTED)
    later, first, second, unsorted = (put(in_memory, due) for due in ("b", "a", "a", None))

    assert ids(in_memory.browser.browse("orders", states=[1])) == [unsorted, first, second, later]


def test_a_sorted_queue_is_read_in_pages_though_a_message_goes(in_memory: Store, session: int) -> None:
    declare(in_memory, **SORTED)
    later, first = put(in_memory, "b"), put(in_memory, "a")
    [page] = in_memory.browser.browse("orders", states=[1], limit=1)
    in_memory.operations.cancel([first])
    put(in_memory, "A")

    assert (page.id, ids(in_memory.browser.browse("orders", states=[1], after=page))) == (first, [later])
    assert len(claim(in_memory, session)) == 2


def test_every_consumer_of_a_queue_that_only_shows_sees_all(in_memory: Store, session: int) -> None:
    declare(in_memory, nondestructive=True)
    sent = [publish(in_memory), publish(in_memory)]

    for _ in range(2):
        consumer = Consumer("reader")
        in_memory.claims.subscribe(session, "orders", consumer)
        assert ids(claim(in_memory, session, consumer=consumer)) == sent
    with pytest.raises(StoreError, match="can only be browsed"):
        claim(in_memory, session)

    assert ids(in_memory.browser.browse("orders", states=[1])) == sent
