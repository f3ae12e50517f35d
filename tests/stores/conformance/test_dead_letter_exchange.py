"""Dead letters that are published to an exchange."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from django_mq.engine.decisions.routing import Route, dead_letter_queues
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import QueueInUse
from tests.stores.builders import claim, declare, ids, lose_worker, open_session, publish, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import History
    from django_mq.stores.base import Store


@pytest.fixture
def failures(store: Store) -> str:
    """A queue whose dead letters go to an exchange, with two queues that may get them."""
    declare(store, dead_letter_exchange="failures", max_attempts=1)
    for name, pattern in (("all", "#"), ("other", "bills.#")):
        declare(store, name)
        store.bind(exchange="failures", exchange_type="topic", pattern=pattern, queue=name)
    return "failures"


def die(store: Store, session: int) -> None:
    [message] = claim(store, session)
    settle(store, session, message, Verdict.DEAD, counted=True, reason="broken")


def test_a_dead_letter_goes_to_the_queues_of_the_exchange(
    store: Store, session: int, failures: str, finished: Callable[[], list[History]]
) -> None:
    published = publish(store, priority=7, headers='{"a": 1}', group_key="g", body=b"secret")

    die(store, session)

    [copy] = store.browse("all", states=[1])
    headers = json.loads(copy.headers)
    assert (copy.priority, copy.body, copy.attempts, copy.id == published) == (7, b"secret", 0, False)
    assert (headers["a"], headers["x-origin-queue"], headers["x-origin-attempts"]) == (1, "orders", 1)
    assert (headers["x-dead-reason"], copy.dead_reason) == ("broken", "broken")
    assert (store.browse("other", states=[1]), store.browse("orders", states=[0, 1, 2, 3])) == ([], [])
    assert [(row.queue_name, row.outcome) for row in finished()] == [("orders", 6)]


def test_the_messages_of_a_deleted_queue_come_in_the_order_of_their_arrival(store: Store, failures: str) -> None:
    published = [uuid4() for _ in range(2)]
    for message_id, delay in zip(published, (60, None), strict=True):
        publish(store, message_id=message_id, delay_seconds=delay)

    assert store.delete_queue("orders", force=True) == 2

    assert [item.message_id for item in store.browse("all", states=[1])] == published


def test_a_queue_stays_as_it_was_if_the_exchange_does_not_take_all_of_its_messages(
    store: Store, failures: str, finished: Callable[[], list[History]]
) -> None:
    kept = [publish(store), publish(store, message_id=UUID(int=1))]
    publish(store, "all", message_id=UUID(int=1))

    with pytest.raises(QueueInUse):
        store.delete_queue("orders", force=True)

    assert ids(store.browse("orders", states=[1])) == kept
    assert (len(store.browse("all", states=[1])), finished()) == (1, [])


def test_each_matching_queue_gets_a_copy(store: Store, session: int, failures: str) -> None:
    store.bind(exchange=failures, exchange_type="topic", pattern="orders", queue="other")
    publish(store)

    die(store, session)

    assert [len(store.browse(name, states=[1])) for name in ("all", "other")] == [1, 1]


def test_a_dead_letter_that_no_queue_takes_stays(store: Store, session: int) -> None:
    declare(store, dead_letter_exchange="nowhere")
    publish(store)

    die(store, session)

    assert [message.dead_reason for message in store.browse("orders", states=[3])] == ["broken"]
    with pytest.raises(QueueInUse, match="exchange 'nowhere' does not take one"):
        store.delete_queue("orders", force=True)


def test_a_full_queue_does_not_keep_a_dead_letter_from_the_others(
    store: Store, session: int, failures: str
) -> None:
    declare(store, "full", max_messages=1)
    publish(store, "full")
    store.bind(exchange=failures, exchange_type="topic", pattern="#", queue="full")
    publish(store)

    die(store, session)

    assert [len(store.browse(name, states=[1])) for name in ("all", "full")] == [1, 1]


def test_the_messages_of_a_deleted_queue_and_of_dead_workers_go_there(
    store: Store, session: int, failures: str
) -> None:
    publish(store)
    for _ in range(2):
        other = open_session(store)
        claim(store, other)
        lose_worker(store, other)
    publish(store)

    assert store.delete_queue("orders", force=True) == 1
    reasons = [json.loads(message.headers)["x-dead-reason"] for message in store.browse("all", states=[1])]
    assert reasons == ["worker lost", "queue deleted"]


@pytest.mark.parametrize(
    ("own", "properties", "wanted"),
    [
        ("", {}, ["all", "by queue"]),
        ("key", {}, ["all", "by key"]),
        ("", {"delivery_info": {"routing_key": "key"}}, ["all", "by key"]),
        ("", {"delivery_info": {"routing_key": 7}}, ["all", "by queue"]),
        ("", {"delivery_info": "odd"}, ["all", "by queue"]),
    ],
)
def test_the_routing_key_of_a_dead_letter(own: str, properties: dict[str, object], wanted: list[str]) -> None:
    routes = [
        Route("topic", "#", "all"),
        Route("topic", "orders", "by queue"),
        Route("topic", "key", "by key"),
        Route("topic", "#", "orders"),  # itself
    ]

    assert dead_letter_queues(routes, own, "orders", properties, lambda: Message(id="m")) == wanted


@pytest.mark.parametrize(
    "given",
    [{"dead_letter_exchange": "e", "dead_letter_queue": "q"}, {"dead_letter_routing_key": "k"}],
    ids=str,
)
def test_contradictions_are_refused(given: dict[str, str]) -> None:
    assert len(list(QueueOptions(**given).contradictions())) == 1  # type: ignore[arg-type]
