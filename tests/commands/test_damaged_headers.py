"""Rows whose headers are no JSON object, written by hand: no command fails at them, and none leaves the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from django_mq.api import publish
from django_mq.delivery.operator.queue_editor import create_queue
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History, Message
from django_mq.stores.records import ClaimRequest, SessionInfo, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from uuid import UUID

    from tests.commands.conftest import Run

# Only SQLite can be told to store what its constraint forbids.
pytestmark = pytest.mark.django_db

SQLITE = "default"
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")
#: As SQL: no JSON, no object, and no text.
DAMAGES = {"no JSON": "'{oops'", "no object": "'[1]'", "no text": "CAST(x'ff22' AS TEXT)"}


@pytest.fixture(autouse=True, params=DAMAGES)
def messages(request: pytest.FixtureRequest) -> list[UUID]:
    """3 dead messages in ``orders``, 3 dead letters of ``bills`` in ``letters``; every second is damaged."""
    create_queue("orders", {}, using=SQLITE)
    create_queue("letters", {}, using=SQLITE)
    create_queue("bills", {"dead_letter_queue": "letters"}, using=SQLITE)
    create_queue("latest", {"kind": "last_value", "last_value_key": "of"}, using=SQLITE)
    messages = [publish(queue, number) for queue in ("orders", "bills") for number in range(3)]
    for queue in ("orders", "bills"):
        bury(queue)
    for one in messages[1::3]:
        spoil(one, DAMAGES[request.param])
    return messages


def bury(queue: str) -> None:
    store = shared_store(SQLITE)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    claimed = store.claims.claim(session, ClaimRequest(queues=(queue,), credit=3)).claimed
    store.settlements.settle(
        session, [Settlement(one.id, one.claim, Verdict.DEAD, reason="broken") for one in claimed]
    )


def spoil(message_id: UUID, damage: str) -> None:
    with connections[SQLITE].cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute(f"UPDATE django_mq_message SET headers = {damage} WHERE message_id = %s", [message_id.hex])
        assert cursor.rowcount == 1
        cursor.execute("PRAGMA ignore_check_constraints = 0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mq_redrive", "orders"], {"redriven": 3, "left": 0, "missing": [], "queues": {"orders": 3}}),
        (["mq_redrive", "letters", "--to", "orders"], {"redriven": 3, "left": 0, "queues": {"orders": 3}}),
        (["mq_redrive", "letters", "--dry-run"], {"would_be_redriven": 3}),
        (["mq_redrive", "--queue", "orders"], {"redriven": 3, "left": 0, "missing": []}),
        (["mq_redrive", "--queue", "letters", "--match", "x-dead-reason:broken"], {"redriven": 2}),
        (["mq_move", "orders", "letters"], {"moved": 3}),
        (["mq_cancel", "--queue", "orders", "--yes"], {"removed": 3, "held": 0, "missing": []}),
        (["mq_purge", "orders", "--yes"], {"queue": "orders", "removed": 3, "held": 0}),
        (["mq_prioritise", "--queue", "letters", "--to", "9"], {"given_that_priority": 3, "left": 0}),
        (["mq_reschedule", "--queue", "letters", "--delay", "60"], {"rescheduled": 3, "left": 0}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_damaged_message_stops_no_other(run: Run, arguments: list[str], said: dict[str, Any]) -> None:
    assert json.loads(run(*arguments, "--json")).items() >= said.items()


@pytest.mark.parametrize(
    ("arguments", "redriven"), [(["letters"], 2), (["--since", "2001-01-01T00:00Z"], 5)], ids=["queue", "all"]
)
def test_a_dead_letter_whose_origin_is_unknown_is_left_with_a_reason(
    arguments: list[str], redriven: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        call_command("mq_redrive", *arguments)

    told = capsys.readouterr()
    assert told.out.startswith(f"{redriven} messages redriven.")
    assert "1 message left alone: no dead letter, or its queue is unknown" in told.err


def test_a_damaged_letter_named_by_its_id_is_left_with_a_reason(
    run: Run, messages: list[UUID], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        run("mq_redrive", messages[4], messages[5])

    assert "1 message left alone: no dead letter" in capsys.readouterr().err


def test_a_damaged_message_is_moved_to_where_a_header_counts(run: Run, messages: list[UUID]) -> None:
    spoil(messages[1], DAMAGES["no JSON"])

    assert json.loads(run("mq_move", "orders", "latest", "--json")) == {"moved": 3}


def test_what_is_removed_is_remembered_with_its_damaged_headers(run: Run, messages: list[UUID]) -> None:
    run("mq_cancel", messages[1], "--yes")

    assert History.objects.filter(message_id=messages[1]).count() == 1


def test_a_damaged_message_can_be_buried(run: Run, messages: list[UUID]) -> None:
    spoil(messages[1], DAMAGES["no JSON"])
    run("mq_queue", "edit", "orders", "--dead-letter-queue", "letters")
    run("mq_redrive", "orders")

    bury("orders")

    (letter,) = Message.objects.filter(message_id=messages[1])
    assert letter.queue.name == "letters"
    assert letter.headers["x-damaged-headers"] == "{oops"
    assert letter.headers["x-origin-queue"] == "orders"


def test_a_damaged_message_is_not_copied(run: Run, messages: list[UUID]) -> None:
    with pytest.raises(CommandError, match=r"headers are|database cannot"):
        run("mq_publish", "orders", "--copy", messages[1])


def test_a_damaged_message_is_shown(run: Run, messages: list[UUID]) -> None:
    spoil(messages[1], DAMAGES["no JSON"])

    lines = run("mq_browse", "orders", "--state", "dead", "--json").splitlines()

    assert [json.loads(line)["headers"] for line in lines] == [{}, "{oops", {}]
