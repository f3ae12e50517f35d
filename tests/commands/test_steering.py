"""mq_purge and mq_move: what changes queues asks first, or says what it would do."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish, publish_many
from django_mq.delivery.operator import moves
from django_mq.delivery.queues import declare
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")

STATUS = Message.Status
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


@pytest.fixture(autouse=True)
def two_queues(database: str) -> None:
    """From here to there."""
    for name in ("here", "there"):
        declare(shared_store(database), name)


def held(alias: str) -> Counter[tuple[str, int]]:
    return Counter(Message.objects.using(alias).values_list("queue__name", "state"))


def claim(alias: str, *, deadline_seconds: float = 60) -> None:
    store = shared_store(alias)
    session = store.sessions.open(WORKER, deadline_seconds=deadline_seconds)
    assert store.claims.claim(session, ClaimRequest(queues=("here",), credit=1)).claimed


def test_a_purge_removes_what_nobody_holds(database: str, run: Run) -> None:
    publish_many([("here", number) for number in range(3)])
    publish("here", delay=60)
    claim(database)

    assert run("mq_purge", "here", "--yes") == (
        "3 messages removed from queue 'here'. Held by workers, and left: 1.\n"
    )

    assert held(database) == {("here", STATUS.CLAIMED): 1}


def test_a_dry_purge_removes_nothing(database: str, run: Run) -> None:
    publish("here")

    printed = run("mq_purge", "here", "--dry-run")

    assert printed == "1 ready, 0 scheduled, 0 dead would be removed from queue 'here'.\n"
    assert held(database) == {("here", STATUS.READY): 1}


@pytest.mark.usefixtures("unattended")
def test_without_a_terminal_a_purge_wants_to_be_told(database: str, run: Run) -> None:
    publish("here")

    with pytest.raises(CommandError, match="Give --yes"):
        run("mq_purge", "here")

    assert held(database)


@pytest.mark.parametrize(("answer", "left"), [("yes", 0), ("Y", 0), ("no", 1), ("", 1)])
def test_a_purge_asks(database: str, run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, left: int) -> None:
    publish("here")
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)

    with nullcontext() if not left else pytest.raises(CommandError, match="Nothing was removed"):
        run("mq_purge", "here")

    assert sum(held(database).values()) == left
    assert asked[0].startswith("Remove 1 ready, 0 scheduled, 0 dead from queue 'here'")


def test_dead_letters_are_moved_in_batches(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "BATCH", 2)
    publish_many([("here", number) for number in range(5)])
    Message.objects.using(database).update(state=STATUS.DEAD, attempts=3)
    publish("here", "alive")

    assert run("mq_move", "here", "there") == "5 messages moved from 'here' to 'there'.\n"

    assert held(database) == {("here", STATUS.READY): 1, ("there", STATUS.READY): 5}
    moved = Message.objects.using(database).filter(queue__name="there").order_by("id")
    assert [(bytes(row.body), row.attempts) for row in moved] == [(b"%d" % number, 0) for number in range(5)]


def test_ready_messages_are_moved_in_delivery_order(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "BATCH", 2)
    run("mq_queue", "edit", "there", "--kind=fifo")
    for priority in (1, 9, 5, 9):
        publish("here", priority, priority=priority)

    run("mq_move", "here", "there", "--state=ready")

    bodies = [json.loads(line)["body"] for line in run("mq_browse", "there", "--json").splitlines()]
    assert bodies == [9, 9, 5, 1]


def test_no_more_are_moved_than_asked_for(database: str, run: Run) -> None:
    publish_many([("here", number) for number in range(5)])

    assert run("mq_move", "here", "there", "--state=ready", "--limit=2").startswith("2 messages moved")

    assert held(database) == {("here", STATUS.READY): 3, ("there", STATUS.READY): 2}


def test_what_is_in_the_target_already_stays(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "BATCH", 1)
    same = publish("here", "first")
    publish("here", "second")
    publish("there", "second", message_id=same)

    assert run("mq_move", "here", "there", "--state=ready").startswith("1 message moved")

    assert held(database) == {("here", STATUS.READY): 1, ("there", STATUS.READY): 2}


def test_scheduled_messages_keep_their_time(database: str, run: Run) -> None:
    publish("here", delay=60)
    due = Message.objects.using(database).get().deliver_at

    run("mq_move", "here", "there", "--state=scheduled")

    row = Message.objects.using(database).get(queue__name="there")
    assert (row.state, row.deliver_at) == (STATUS.SCHEDULED, due)


def test_a_dry_move_moves_nothing(database: str, run: Run) -> None:
    publish("here")

    assert (
        run("mq_move", "here", "there", "--state=ready", "--dry-run") == "Ready messages that would be moved: 1.\n"
    )
    assert held(database) == {("here", STATUS.READY): 1}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["here", "nowhere"], "There is no queue 'nowhere'"),
        (["nowhere", "there"], "There is no queue 'nowhere'"),
        (["here", "here"], "both source and target"),
        (["here", "there", "--limit=0"], "--limit: must be 1 or more"),
        (["here", "there", "--state=claimed"], "invalid choice"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(
    database: str, run: Run, arguments: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        run("mq_move", *arguments)
