"""Receivers of signals are told what happens, and none of them can stop it."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq import signals
from django_mq.api import Decline, Reject, Release, pause, publish, publish_many, resume
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.queues import declare
from django_mq.errors import InvalidMessage
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "docs/reference/signals.md"
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
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    policy = store.queues.find("orders")
    assert policy is not None
    Delivery(claimed, Handler(queue="orders", function=function, credit=1, time_limit_seconds=None), policy).run()


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
    [
        (None, "accepted"),
        (Release(), "released"),
        (Decline(), "declined"),
        (ValueError(), "retried"),
        (Reject(), "dead"),
    ],
    ids=["accepted", "released", "declined", "retried", "dead"],
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


def test_pausing_is_told_after_the_commit_and_not_without(
    committed_database: str, told: list[tuple[str, dict[str, Any]]]
) -> None:
    with transaction.atomic(using=committed_database):
        pause("orders")
        resume("orders")
        assert told == []
    assert [name for name, _ in told] == ["queue_paused", "queue_resumed"]

    with transaction.atomic(using=committed_database):
        pause("orders")
        transaction.set_rollback(True, using=committed_database)
    assert len(told) == 2


def test_a_receiver_that_raises_stops_nothing(committed_database: str, caplog: pytest.LogCaptureFixture) -> None:
    declare(shared_store(committed_database), "orders")

    def fail(**_: Any) -> None:
        raise RuntimeError("receiver")

    for signal in signals.EVENTS.values():
        signal.connect(fail)
    try:
        publish("orders", 1)
        attempt(committed_database, lambda message: None)
        pause("orders")
        resume("orders")
    finally:
        for signal in signals.EVENTS.values():
            signal.disconnect(fail)

    failed = [
        str(record.args[0]) for record in caplog.records if "A receiver of" in record.message and record.args
    ]  # type: ignore[index]
    assert failed == list(signals.EVENTS)
    assert shared_store(committed_database).queues.counts()["orders"].ready == 0


def test_a_log_that_takes_events_has_what_json_can_say(
    committed_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare(shared_store(committed_database), "orders")

    def fail(message: Any) -> None:
        raise ValueError("no stock")

    with caplog.at_level(logging.DEBUG, logger="django_mq.events"):
        id_ = str(publish("orders", {"card": "card-4111"}, type="invoice", headers={"token": "secret"}))
        attempt(committed_database, fail)

    events = [(record.event, record.details) for record in caplog.records if hasattr(record, "event")]  # type: ignore[attr-defined]
    message = {"id": id_, "queue": "orders", "type": "invoice", "priority": 4, "attempt": 1}
    assert events[0][1]["headers"] == ["token"]
    assert events[1] == ("messages_published", {"message_ids": [id_], "using": committed_database})
    assert events[2] == ("attempt_started", {"message": message})
    assert events[3][1]["message"] == message
    assert events[3][1]["error"] == "ValueError('no stock')"
    written = json.dumps(events)
    assert "card-4111" not in written
    assert "secret" not in written


def test_the_pages_formatter_writes_a_line_of_json_for_each_event(committed_database: str) -> None:
    declare(shared_store(committed_database), "orders")
    formatter, configuration = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1:3]
    shop: dict[str, Any] = {}
    exec(formatter + configuration, shop)
    # Not dictConfig itself, which would close the handlers of this test run.
    (name,) = shop["LOGGING"]["loggers"]
    assert shop["LOGGING"]["formatters"]["json"]["()"] == "shop.logs.JSONLines"
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(shop["JSONLines"]())
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(shop["LOGGING"]["loggers"][name]["level"])
    try:
        id_ = publish("orders", 1)
        attempt(committed_database, lambda message: None)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["event"] for line in lines] == list(signals.EVENTS)[:4]
    assert lines[1]["message_ids"] == [str(id_)]
    assert lines[3]["outcome"] == "accepted"


def test_the_page_has_every_signal() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE) == list(signals.EVENTS)
