"""What happens is told to whoever listens, and nobody who listens can stop it."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq import signals
from django_mq.api import Reject, Release, pause, publish, publish_many, resume
from django_mq.delivery.declaring import declare
from django_mq.delivery.executing import Attempt
from django_mq.delivery.handlers import Handler
from django_mq.errors import InvalidMessage
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


@pytest.fixture
def told(committed_database: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Everything that is told, in order."""
    declare(shared_store(committed_database), "orders")
    heard: list[tuple[str, dict[str, Any]]] = []

    def hear(*, signal: Any, sender: str, **arguments: Any) -> None:
        heard.append((sender, arguments))

    for signal in signals.EVENTS.values():
        signal.connect(hear)
    yield heard
    for signal in signals.EVENTS.values():
        signal.disconnect(hear)


def attempt(alias: str, function: Callable[[Any], Any]) -> None:
    store = shared_store(alias)
    session = store.open_session(WORKER, deadline_seconds=60)
    (claimed,) = store.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    policy = store.queue("orders")
    assert policy is not None
    Attempt(claimed, Handler(queue="orders", function=function, credit=1, time_limit_seconds=None), policy).run()


def test_a_publish_is_told_before_and_after_its_commit(
    committed_database: str, told: list[tuple[str, dict[str, Any]]]
) -> None:
    with transaction.atomic(using=committed_database):
        ids = publish_many([("orders", 1), ("orders", 2)])
        assert [name for name, _ in told] == ["message_publishing", "message_publishing"]

    assert told[-1] == ("messages_published", {"message_ids": ids, "using": committed_database})


def test_a_publish_that_is_rolled_back_is_not_told(
    committed_database: str, told: list[tuple[str, dict[str, Any]]]
) -> None:
    with transaction.atomic(using=committed_database):
        publish("orders", 1)
        transaction.set_rollback(True, using=committed_database)

    assert "messages_published" not in dict(told)


def test_a_receiver_may_add_headers_which_are_held_to_the_rules(
    committed_database: str, told: list[tuple[str, dict[str, Any]]]
) -> None:
    given = {"a": 1}
    added: dict[str, Any] = {"tenant": "acme"}

    def add(headers: dict[str, Any], **_: Any) -> None:
        headers.update(added)

    signals.message_publishing.connect(add)
    try:
        publish("orders", 1, headers=given)
        added["bad"] = object()
        with pytest.raises(InvalidMessage):
            publish("orders", 2)
    finally:
        signals.message_publishing.disconnect(add)

    assert Message.objects.using(committed_database).get().headers == {"a": 1, "tenant": "acme"}
    assert given == {"a": 1}


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [(None, "accepted"), (Release(), "released"), (ValueError(), "retried"), (Reject(), "dead")],
    ids=["accepted", "released", "retried", "dead"],
)
def test_an_attempt_is_told_with_its_outcome(
    committed_database: str, told: list[tuple[str, dict[str, Any]]], raised: Exception | None, outcome: str
) -> None:
    message_id = publish("orders", 1)

    def handle(message: Any) -> None:
        assert told[-1] == ("attempt_started", {"message": message})
        if raised is not None:
            raise raised

    attempt(committed_database, handle)

    name, arguments = told[-1]
    assert name == "attempt_finished"
    assert arguments["message"].id == message_id
    assert (arguments["outcome"], arguments["error"]) == (outcome, raised)
    assert arguments["seconds"] >= 0


def test_pausing_and_resuming_is_told(committed_database: str, told: list[tuple[str, dict[str, Any]]]) -> None:
    pause("orders", reason="stock take", seconds=5)
    resume("orders")

    queue = {"queue": "orders", "using": committed_database}
    assert told == [
        ("queue_paused", {**queue, "reason": "stock take", "seconds": 5}),
        ("queue_resumed", queue),
    ]


def test_a_receiver_that_raises_stops_nothing(committed_database: str, caplog: pytest.LogCaptureFixture) -> None:
    declare(shared_store(committed_database), "orders")

    def fail(**_: Any) -> None:
        raise RuntimeError("receiver")

    for signal in signals.EVENTS.values():
        signal.connect(fail)
    try:
        publish("orders", 1)
        attempt(committed_database, lambda message: None)
    finally:
        for signal in signals.EVENTS.values():
            signal.disconnect(fail)

    failed = [record for record in caplog.records if "A receiver of" in record.message]
    assert len(failed) == 4


def test_a_log_that_takes_events_is_told_the_same(
    committed_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare(shared_store(committed_database), "orders")
    with caplog.at_level(logging.DEBUG, logger="django_mq.events"):
        message_id = publish("orders", 1)

    events = [(record.event, record.details) for record in caplog.records if hasattr(record, "event")]  # type: ignore[attr-defined]
    assert events[-1] == ("messages_published", {"message_ids": [message_id], "using": committed_database})


def test_the_page_has_every_signal() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/signals.md").read_text()

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(signals.EVENTS)
