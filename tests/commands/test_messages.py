"""mq_redrive, mq_release, mq_reschedule, mq_prioritise, mq_cancel, mq_move: single messages, or all that match."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from django_mq.api import OutgoingMessage, publish, publish_many
from django_mq.delivery.operator import redrives
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, Failure, SessionInfo, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from uuid import UUID

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")
#: What each command is told beside the messages.
COMMANDS = {
    "mq_redrive": [],
    "mq_release": ["--yes"],
    "mq_cancel": ["--yes"],
    "mq_reschedule": ["--delay", "60"],
    "mq_prioritise": ["--to", "9"],
    "mq_move": ["--to", "mails"],
}
every_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(autouse=True)
def two_queues(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


def states(alias: str) -> dict[UUID, int]:
    return dict(Message.objects.using(alias).values_list("message_id", "state"))


def claim(alias: str, number: int, *, queue: str = "orders", verdict: Verdict | None = None) -> None:
    """Have a worker hold so many messages, or give its verdict on them."""
    store = shared_store(alias)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    claimed = store.claims.claim(session, ClaimRequest(queues=(queue,), credit=number)).claimed
    if verdict is not None:
        store.settlements.settle(
            session, [Settlement(one.id, one.claim, verdict, reason="broken") for one in claimed]
        )


def test_a_dead_message_is_redriven_where_it_stands(database: str, run: Run) -> None:
    dead = publish("orders")
    claim(database, 1, verdict=Verdict.DEAD)

    assert run("mq_redrive", dead) == "1 message redriven.\n  1 to 'orders'\n"

    assert states(database) == {dead: READY}


def test_a_letter_in_a_dead_letter_queue_is_redriven_where_it_came_from(database: str, run: Run) -> None:
    create_queue("one", {"dead_letter_queue": "mails"}, using=database)
    letter = publish("one")
    claim(database, 1, queue="one", verdict=Verdict.DEAD)
    ordinary = publish("mails")

    with pytest.raises(SystemExit):  # one of them is no dead letter
        run("mq_redrive", letter, ordinary)

    found = Message.objects.using(database).values_list("message_id", "queue__name", "state")
    assert set(found) == {(letter, "one", READY), (ordinary, "mails", READY)}


def test_filters_find_dead_letters_only(database: str, run: Run) -> None:
    create_queue("one", {"dead_letter_queue": "mails"}, using=database)
    for queue in ("one", "orders"):
        publish(queue, type="invoice")
        claim(database, 1, queue=queue, verdict=Verdict.DEAD)
    publish_many([OutgoingMessage(queue="orders", type="invoice"), OutgoingMessage(queue="mails", type="invoice")])

    assert run("mq_redrive", "--type", "invoice").startswith("2 messages redriven.\n")

    left = Message.objects.using(database).filter(state=READY).values_list("queue__name", flat=True)
    assert sorted(left) == ["mails", "one", "orders", "orders"]


def test_what_workers_hold_is_released(database: str, run: Run) -> None:
    held, free = publish_many([("orders", 0), ("orders", 1)])
    claim(database, 1)

    assert json.loads(run("mq_release", "--queue", "orders", "--yes", "--json")) == {
        "released": 1,
        "left": 0,
        "missing": [],
    }

    assert states(database) == {held: READY, free: READY}


def test_what_a_worker_holds_is_not_removed_or_released_without_advice(
    database: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    held = publish("orders")
    claim(database, 1)

    with pytest.raises(SystemExit):
        call_command("mq_cancel", str(held))
    assert "stop what runs with --running" in capsys.readouterr().err
    assert "Workers still have to stop 1 of them." in run("mq_cancel", held, "--running")
    assert "mq_workers --quiet NAME" in run("mq_release", held)
    with pytest.raises(SystemExit):
        call_command("mq_release", str(held))
    assert "--quiet" not in capsys.readouterr().out


def test_messages_are_given_another_time_or_delivered_now(database: str, run: Run) -> None:
    first, second = publish("orders", delay=3600), publish("orders")
    due = dict.fromkeys([first, second], datetime(2131, 1, 31, 8, tzinfo=UTC))
    messages = Message.objects.using(database)

    run("mq_reschedule", first, second, "--at", "2131-01-31T09:00+01:00")
    assert dict(messages.filter(state=SCHEDULED).values_list("message_id", "deliver_at")) == due

    assert run("mq_reschedule", first, "--now") == "1 message made ready.\n"
    assert states(database) == {first: READY, second: SCHEDULED}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "tomorrow"], "not a valid date and time"),
        (["--delay", "1e15"], "less than a century"),
        ([], "one of the arguments --at --delay --now is required"),
        (["--delay", "-1"], "more than 0"),
    ],
)
def test_a_time_that_is_none_is_refused(database: str, run: Run, arguments: list[str], said: str) -> None:
    message = publish("orders")

    with pytest.raises(CommandError, match=said):
        run("mq_reschedule", message, *arguments)

    assert states(database) == {message: READY}


@pytest.mark.parametrize("command", ["mq_download", "mq_browse orders", "mq_redrive --type a", "mq_operations"])
def test_a_limit_that_nothing_counts_to_is_refused(database: str, run: Run, command: str) -> None:
    with pytest.raises(CommandError, match="--limit: must be at most"):
        run(*command.split(), "--limit", "9" * 20)


def test_messages_are_given_another_priority(database: str, run: Run) -> None:
    urgent = publish("orders", type="invoice", priority=1)
    publish("orders", type="reminder", priority=1)

    assert run("mq_prioritise", "--type", "invoice", "--to", 9) == "1 message given that priority.\n"

    assert Message.objects.using(database).get(priority=9, level=9).message_id == urgent


def test_messages_are_moved_by_id_or_all_that_match(database: str, run: Run) -> None:
    first = publish("orders", 1, type="invoice")
    dead, other = publish_many(
        [OutgoingMessage(queue="orders", body=2), OutgoingMessage(queue="orders", body=3, type="reminder")]
    )
    late = publish("orders", 4, type="invoice", delay=60)
    Message.objects.using(database).filter(message_id=dead).update(state=DEAD, type="invoice")

    assert run("mq_move", first, "--to", "mails") == "1 message moved.\n"
    said = json.loads(run("mq_move", "--to", "mails", "--type", "invoice", "--state", "dead", "--json"))
    assert said == {"moved": 1, "left": 0, "missing": []}
    # What is there already does not match.
    assert run("mq_move", "--to", "mails", "--type", "invoice") == "1 message moved.\n"

    found = Message.objects.using(database).values_list("message_id", "queue__name", "state")
    assert set(found) == {
        (first, "mails", READY),
        (dead, "mails", READY),
        (late, "mails", SCHEDULED),
        (other, "orders", READY),
    }


def test_what_was_moved_before_the_target_was_full_is_said(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redrives, "BATCH", 2)
    edit_queue("mails", {"max_messages": 2, "overflow": "reject"}, using=database)
    publish_many([("orders", number) for number in range(5)])
    out = io.StringIO()

    with pytest.raises(CommandError, match="'mails' is full"):
        call_command("mq_move", "--to", "mails", "--queue", "orders", "--json", stdout=out)

    assert json.loads(out.getvalue()) == {"moved": 2, "left": 0, "missing": []}
    assert Message.objects.using(database).filter(queue__name="mails").count() == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders"], "mq_move QUEUE TARGET; or with --to"),
        ([], "mq_move QUEUE TARGET; or with --to"),
        (["orders", "mails", "--type", "invoice"], "--type needs --to: mq_move --to mails --queue orders"),
        (["orders", "--to", "mails"], "'orders' is no message id"),
    ],
)
def test_the_two_forms_of_a_move_are_told_apart(database: str, run: Run, arguments: list[str], said: str) -> None:
    publish("orders", type="invoice")

    with pytest.raises(CommandError, match=said) as refused:
        run("mq_move", *arguments)

    assert refused.value.returncode == 2
    assert Message.objects.using(database).filter(queue__name="orders").count() == 1


def test_all_that_match_are_cancelled_batch_by_batch(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrives, "BATCH", 2)
    kept = publish("orders", headers={"tenant": "south"})
    publish_many([OutgoingMessage(queue="orders", headers={"tenant": "west"})] * 5)
    wanted = ["--match", "tenant:west", "--yes"]

    assert run("mq_cancel", *wanted, "--dry-run") == "5 messages would be removed.\n"
    assert run("mq_cancel", *wanted, "--limit", "3") == "3 messages removed.\n"
    assert run("mq_cancel", *wanted) == "2 messages removed.\n"
    assert run("mq_cancel", "--match", "tenant:north", "--yes") == "0 messages removed.\n"

    assert states(database) == {kept: READY}


def test_those_of_one_state_are_cancelled(database: str, run: Run) -> None:
    publish("orders")
    claim(database, 1, verdict=Verdict.DEAD)
    kept = [publish("orders"), publish("orders", delay=60)]

    assert run("mq_cancel", "--queue", "orders", "--state", "dead", "--yes") == "1 message removed.\n"
    assert states(database) == dict(zip(kept, [READY, SCHEDULED], strict=True))

    for command in (["mq_cancel", "--yes"], ["mq_move", "--to", "mails"]):
        with pytest.raises(CommandError, match="--state goes with filters"):
            run(*command, kept[0], "--state", "dead")
        with pytest.raises(CommandError, match="Name messages by their ids, or say by filters"):
            run(*command, "--state", "ready")
    assert states(database) == dict(zip(kept, [READY, SCHEDULED], strict=True))


def test_messages_are_found_by_exception_reason_and_time(database: str, run: Run) -> None:
    store = shared_store(database)
    failed, other = publish("orders"), publish("orders")
    store.settlements.record_attempt(
        Failure("ValueError"), queue_name="orders", number=1, worker="w", message_id=failed
    )
    claim(database, 2, verdict=Verdict.DEAD)

    def matching(*filters: str) -> int:
        return int(json.loads(run("mq_redrive", *filters, "--dry-run", "--json"))["would_be_redriven"])

    assert matching("--error", "ValueError") == 1
    assert matching("--error", "KeyError") == 0
    assert matching("--reason", "broken") == 2
    assert matching("--since", "2001-01-01T00:00Z", "--until", "2131-01-01T00:00Z") == 2
    assert matching("--until", "2001-01-01T00:00Z") == 0
    assert states(database) == {failed: DEAD, other: DEAD}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders", "mails"], "'orders' is no message id"),
        (["orders", "--queue", "mails"], "Name the queue once"),
    ],
)
def test_a_redrive_of_two_queues_is_refused(database: str, run: Run, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        run("mq_redrive", *arguments)

    assert refused.value.returncode == 2


@every_command
def test_neither_an_id_nor_a_filter_is_not_everything(database: str, run: Run, command: str) -> None:
    publish("orders")

    with pytest.raises(CommandError, match="Name messages by their ids, or say by filters"):
        run(command, *COMMANDS[command])


@every_command
def test_an_id_that_nothing_has_is_said(database: str, run: Run, command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(command, uuid4(), *COMMANDS[command])

    assert ended.value.code == 1


@every_command
def test_a_dry_run_changes_nothing(database: str, run: Run, command: str) -> None:
    messages = [publish("orders") for _ in range(2)]
    claim(database, 1, verdict=Verdict.DEAD)
    claim(database, 1)
    messages += [publish("orders"), publish("orders", delay=60)]
    before = list(Message.objects.using(database).order_by("pk").values())

    said = json.loads(run(command, "--queue", "orders", *COMMANDS[command], "--dry-run", "--json"))

    assert said["missing"] == []
    assert 0 < next(iter(said.values())) < len(messages)
    assert list(Message.objects.using(database).order_by("pk").values()) == before


@pytest.mark.parametrize("command", ["mq_cancel", "mq_release"])
def test_nobody_to_ask_is_no_yes(database: str, run: Run, unattended: None, command: str) -> None:
    message = publish("orders")

    with pytest.raises(CommandError, match="Give --yes"):
        run(command, "--queue", "orders")

    assert states(database) == {message: READY}


def test_one_queue_without_room_does_not_keep_the_letters_of_others(database: str, run: Run) -> None:
    for name in ("full", "closed", "open"):
        create_queue(name, {"dead_letter_queue": "mails"}, using=database)
        publish(name)
        claim(database, 1, queue=name, verdict=Verdict.DEAD)
    edit_queue("closed", {"closed": True}, using=database)
    edit_queue("full", {"max_messages": 1, "overflow": "reject"}, using=database)
    publish("full")

    out = io.StringIO()

    with pytest.raises(SystemExit, match="1"):
        call_command("mq_redrive", "mails", "--json", stdout=out)

    assert json.loads(out.getvalue()) == {"redriven": 1, "left": 2, "missing": [], "queues": {"open": 1}}
    with pytest.raises(CommandError, match="'closed' is closed"):
        run("mq_redrive", "mails", "--to", "closed")
