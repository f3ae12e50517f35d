"""mq_queues and mq_browse: looking changes nothing, and nothing that is looked at drives the terminal."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management.base import CommandError
from django.db.models import F

from django_mq import formats
from django_mq.api import pause, publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state import overview
from django_mq.models import Message, Queue
from django_mq.rollups.duty import sum_up
from django_mq.stores.records import SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")

WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=("orders",))


@pytest.fixture(autouse=True)
def orders(database: str) -> None:
    """Two queues."""
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


def rows(printed: str) -> dict[str, list[str]]:
    """Return the table's rows by their first cell."""
    return {line.split()[0]: line.split()[1:] for line in printed.splitlines()[1:]}


def test_every_queue_has_a_line_with_its_depth(database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(3)])
    publish("orders", delay=60)
    Message.objects.using(database).filter(pk=Message.objects.using(database).first().pk).update(state=3)  # type: ignore[union-attr]
    shared_store(database).sessions.open(WORKER, deadline_seconds=60)

    table = rows(run("mq_queues"))

    *depth, age, unit, consumers = table["orders"]
    assert (depth, unit, consumers) == (["3", "0", "0", "0", "1"], "s", "1")
    assert 0 <= int(age) < 60
    assert table["mails"] == ["0", "0", "0", "0", "0", "-", "0"]


def test_counts_stop_at_their_limit(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_many([("orders", number) for number in range(5)])
    for module in (overview, formats):
        monkeypatch.setattr(module, "COUNT_LIMIT", 3)

    assert rows(run("mq_queues"))["orders"][0] == "3+"


def test_what_holds_a_queue_up_is_said(database: str, run: Run) -> None:
    pause("orders", reason="stock\x1b[2Jtaking")
    Queue.objects.using(database).filter(name="mails").update(closed=True)

    printed = run("mq_queues")

    assert "paused: stock\\x1b[2Jtaking" in printed
    assert rows(printed)["mails"][-1] == "closed"


def test_a_queue_without_a_worker_says_so_as_in_the_admin(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    publish("mails")

    assert rows(run("mq_queues"))["mails"][-2:] == ["no", "worker"]
    assert "no worker" in run("mq_top", "--once")


def test_a_pause_that_is_over_is_none(database: str, run: Run) -> None:
    pause("orders", reason="stocktaking", seconds=60)
    Queue.objects.using(database).update(paused_until=F("paused_until") - timedelta(days=1))

    assert "paused" not in run("mq_queues")


def test_scripts_are_given_json(database: str, run: Run) -> None:
    publish("orders")
    pause("orders")

    (queue,) = json.loads(run("mq_queues", "orders", "--json"))

    assert (queue["name"], queue["ready"], queue["paused"], queue["consumers"]) == ("orders", 1, True, 0)
    assert queue["rates"] is None

    sum_up(shared_store(database), 1000)

    (queue,) = json.loads(run("mq_queues", "orders", "--json"))
    assert queue["rates"] == {"arrived": 0.0, "accepted": 0.0, "failed": 0.0, "redelivered": 0.0}


def test_an_unknown_queue_is_an_error(database: str, run: Run) -> None:
    with pytest.raises(CommandError, match="There is no queue 'nowhere'"):
        run("mq_queues", "nowhere")
    with pytest.raises(CommandError, match="There is no queue 'nowhere'"):
        run("mq_browse", "nowhere")


def test_no_queues_at_all_are_said_to_be_none(database: str, run: Run) -> None:
    Queue.objects.using(database).all().delete()

    assert "There are no queues yet" in run("mq_queues")


def test_browsing_shows_messages_in_delivery_order_and_takes_none(database: str, run: Run) -> None:
    for priority in (1, 9, 5):
        publish("orders", f"number {priority}", priority=priority)

    printed = run("mq_browse", "orders")

    assert [line[-1:] for line in printed.replace('"', "").splitlines()[1:]] == ["9", "5", "1"]
    assert Message.objects.using(database).filter(state=Message.Status.READY).count() == 3


def test_browsing_shows_no_more_than_asked_for(database: str, run: Run) -> None:
    publish_many([("orders", number) for number in range(5)])

    assert len(run("mq_browse", "orders", "--limit=2").splitlines()) == 3
    with pytest.raises(CommandError, match="--limit: must be 1 or more"):
        run("mq_browse", "orders", "--limit=0")


@pytest.mark.parametrize(("state", "shown"), [("ready", 1), ("scheduled", 1), ("dead", 0), ("all", 2)])
def test_browsing_shows_one_state_or_all(database: str, run: Run, state: str, shown: int) -> None:
    publish("orders")
    publish("orders", delay=60)

    lines = run("mq_browse", "orders", f"--state={state}").splitlines()

    assert len(lines) - 1 == shown
    assert shown or lines == ["Nothing there."]


HOSTILE = "\x1b]0;owned\x07\x1b[31m\r\n\x9b2J\u202egnp.exe\x00"


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", None])
def test_no_message_drives_the_terminal(database: str, run: Run, content_type: str | None) -> None:
    body = HOSTILE.encode() if content_type is None else HOSTILE
    publish("orders", body, content_type=content_type, type=HOSTILE.rstrip("\x00"), headers={"h": HOSTILE[:-1]})

    for arguments in ([], ["--json"]):
        printed = run("mq_browse", "orders", *arguments)

        assert all(character.isprintable() or character == "\n" for character in printed)
        assert len(printed.splitlines()) == 2 - len(arguments)


def test_a_dead_letter_says_why_beside_its_body(database: str, run: Run) -> None:
    publish("orders", "the body")
    Message.objects.using(database).update(state=Message.Status.DEAD, dead_reason="ValueError: \x1b[31mno")

    headings, row = run("mq_browse", "orders", "--state=dead").splitlines()

    assert headings.endswith("  BODY        REASON")
    assert row.endswith('  "the body"  ValueError: \\x1b[31mno')


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"body": {"a": 1}, "headers": {"h": 1}}, {"body": {"a": 1}, "headers": {"h": 1}}),
        ({"body": "text", "content_type": "text/plain"}, {"body": "text", "headers": {}}),
        ({"body": b"\xff"}, {"body_base64": "/w==", "headers": {}}),
    ],
)
def test_scripts_are_given_whole_bodies(
    database: str, run: Run, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    publish("orders", **given)

    shown = json.loads(run("mq_browse", "orders", "--json"))

    assert {key: shown[key] for key in expected} == expected


def test_a_corrupt_message_is_shown_as_it_is(database: str, run: Run) -> None:
    publish("orders", 1)
    Message.objects.using(database).update(body=b"{", headers=["no", "object"])

    shown = json.loads(run("mq_browse", "orders", "--json"))

    assert (shown["body_base64"], json.loads(shown["headers"])) == ("ew==", ["no", "object"])


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0, "0 s"), (-5, "0 s"), (59.9, "59 s"), (125, "2 min 5 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds: float | None, shown: str) -> None:
    assert formats.PLAIN.duration(seconds) == shown


def test_a_selector_says_which_messages_are_listed(run: Run) -> None:
    publish("orders", "mine", headers={"colour": "red"})
    publish("orders", "theirs")

    listed = run("mq_browse", "orders", "--selector", "colour = 'red'")

    assert ("mine" in listed, "theirs" in listed) == (True, False)
    with pytest.raises(CommandError, match="position 0"):
        run("mq_browse", "orders", "--selector", "'red")
