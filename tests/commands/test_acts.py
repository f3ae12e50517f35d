"""What commands do is kept with the user and the host; mq_acts shows it, and puts messages back."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from django_mq.acts.models import Act
from django_mq.acts.operators import of_command
from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.management.commands.mq_move import Command
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture(autouse=True)
def two_queues(database: str) -> None:
    for name in ("orders", "mails"):
        declare(shared_store(database), name)


def test_an_undo_puts_back_what_is_there(database: str, run: Run) -> None:
    ids = [publish("orders", number, using=database) for number in range(3)]
    run("mq_move", "--to", "mails", "--queue", "orders", "--why", "by mistake", "--database", database)
    call_command("mq_cancel", str(ids[0]), database=database, stdout=io.StringIO())

    act = Act.objects.using(database).get(name="move")
    would = json.loads(run("mq_acts", "--undo", str(act.pk), "--dry-run", "--json", "--database", database))
    with pytest.raises(SystemExit) as ended:
        run("mq_acts", "--undo", str(act.pk), "--database", database)

    assert (would, ended.value.code) == ({"would_try": 3}, 1)
    assert Message.objects.using(database).filter(queue__name="orders").count() == 2
    shown = json.loads(run("mq_acts", "--json", "--database", database))
    assert [(row["name"], row["count"], row["reason"]) for row in shown] == [
        ("undo", 2, ""),
        ("cancel", 1, ""),
        ("move", 3, "by mistake"),
    ]
    assert {row["user_name"] for row in shown} == {of_command().name}
    assert shown[2]["criterion"] == {"filters": {"queue": "orders"}}
    of_one = json.loads(run("mq_acts", "--json", "--message", str(ids[0]), "--database", database))
    assert [row["name"] for row in of_one] == ["cancel", "move"]
    with pytest.raises(CommandError, match="no act 999999"):
        run("mq_acts", "--undo", "999999", "--database", database)


def test_an_operator_at_a_terminal_is_asked_why_many_messages_are_changed(
    database: str, run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "ACTS_REASON_ABOVE": 1}
    for number in range(2):
        publish("orders", number, using=database)
    typed, questions = [""], list[str]()
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or typed[0])
    asked = [
        ["mq_reschedule", "--queue", "orders", "--delay", "5"],
        ["mq_move", "--to", "mails", "--queue", "orders"],
        ["mq_move", "orders", "mails", "--state", "ready"],
        ["mq_queue", "delete", "orders", "--force"],
    ]

    for name, *words in asked:
        with pytest.raises(CommandError, match="Say why, here or with --why"):
            run(name, *words, "--database", database)
    assert questions == ["This changes more than 1 messages. Why? "] * len(asked)
    assert (Message.objects.using(database).count(), Act.objects.using(database).count()) == (2, 0)

    typed[0] = "stock take"
    run("mq_move", "orders", "mails", "--state", "ready", "--database", database)
    run("mq_move", "mails", "orders", "--state", "ready", "--why", "again", "--database", database)
    run("mq_purge", "orders", "--yes", "--database", database)
    acts = Act.objects.using(database).order_by("pk").values_list("name", "count", "reason")
    assert list(acts) == [("move", 2, "stock take"), ("move", 2, "again"), ("purge", 2, "")]


def test_a_script_is_not_asked_why(database: str, run: Run, settings: Settings, unattended: None) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "ACTS_REASON_ABOVE": 1}
    for number in range(2):
        publish("orders", number, using=database)

    run("mq_move", "orders", "mails", "--state", "ready", "--database", database)

    [act] = Act.objects.using(database).all()
    assert (act.count, act.messages.count(), act.reason) == (2, 2, "")


class Terminal:
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_line_that_was_typed_is_kept(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A program ends after its command, and the test does not.
    monkeypatch.setattr("django.core.management.base.connections.close_all", lambda: None)
    publish("orders", 1, using=database)
    argv = ["manage.py", "mq_move", "--to=mails", "--queue=orders", f"--database={database}", "--why=it's wrong"]

    Command().run_from_argv(argv)

    [act] = Act.objects.using(database).all()
    assert act.command.endswith("'--why=it'\"'\"'s wrong'")
    assert act.command.startswith("python manage.py mq_move --to=mails")
