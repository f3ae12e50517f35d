"""What scripts rely on: JSON, exit codes, dry runs, hints at what was meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.models import LimitException, Message, Queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")


ALLOWED = {"amount": 50.0, "seconds": 1.0, "burst": None, "at_once": None}


@pytest.fixture(autouse=True)
def orders(database: str) -> None:
    for name in ("orders", "mails", "two words"):
        declare(shared_store(database), name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mq_pause", "orders", "mails"], {"paused": ["orders", "mails"]}),
        (["mq_resume", "orders"], {"resumed": ["orders"]}),
        (
            ["mq_limits", "orders", "--allow", "api", "17", "--amount=50", "--seconds=1"],
            {"limits": [{"queue": "orders", "limit": "api", "key": "17", **ALLOWED}], "waiting": []},
        ),
        (["mq_limits", "orders", "--forget", "api", "17"], {"limits": [], "waiting": []}),
        (["mq_move", "orders", "mails", "--state=ready", "--dry-run"], {"would_move": 1}),
        (["mq_move", "orders", "mails", "--state=ready"], {"moved": 1}),
        (
            ["mq_purge", "orders", "--dry-run"],
            {"queue": "orders", "would_remove": {"ready": 1, "scheduled": 0, "dead": 0}},
        ),
        (["mq_purge", "orders", "--yes"], {"queue": "orders", "removed": 1, "held": 0}),
        (
            ["mq_redrive", "orders", "--dry-run"],
            {"would_be_redriven": 0, "left": 0, "missing": [], "queues": {}},
        ),
        (["mq_prune", "--dry-run"], {"would_delete": {"history": 0, "attempts": 0}}),
    ],
)
def test_what_is_done_is_said_in_json(database: str, run: Run, arguments: list[str], said: Any) -> None:
    publish("orders")
    LimitException.objects.using(database).create(
        queue_name="orders", limit_name="api", limited_key="17", at_once=2
    )

    assert json.loads(run(*arguments, "--json")) == said


def test_a_publish_says_the_id_in_json(database: str, run: Run) -> None:
    said = json.loads(run("mq_publish", "orders", "--json", '{"total": 3}'))

    assert said == {"published": 1, "message_id": str(Message.objects.using(database).get().message_id)}


def test_each_look_of_the_watcher_is_an_object(database: str, run: Run) -> None:
    publish("orders")

    (line,) = run("mq_top", "--count", "1", "--json").splitlines()

    look = json.loads(line)
    assert (look["workers"], look["error"]) == ({"alive": 0, "stale": 0, "held": 0}, "")
    assert (look["queues"][0]["name"], look["queues"][0]["ready"]) == ("orders", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["mq_queues", "ordres"],
        ["mq_top", "ordres", "--count=1"],
        ["mq_browse", "ordres"],
        ["mq_publish", "ordres", "1"],
        ["mq_move", "ordres", "mails"],
        ["mq_move", "mails", "ordres"],
        ["mq_move", "--to", "ordres", "--queue", "mails"],
        ["mq_move", "--to", "mails", "--queue", "ordres"],
        ["mq_redrive", "ordres"],
        ["mq_redrive", "mails", "--to", "ordres"],
        ["mq_purge", "ordres", "--yes"],
        ["mq_pause", "ordres"],
        ["mq_resume", "ordres"],
        ["mq_limits", "ordres"],
        ["mq_workers", "--queue", "ordres"],
        ["mq_cancel", "00000000-0000-7000-8000-000000000001", "--queue", "ordres"],
        ["mq_redrive", "--queue", "ordres"],
        ["mq_release", "--queue", "ordres", "--yes"],
        ["mq_reschedule", "--queue", "ordres", "--now"],
        ["mq_prioritise", "--queue", "ordres", "--to=9"],
        ["mq_queue", "edit", "ordres", "--levels=3"],
        ["mq_queue", "delete", "ordres"],
        ["mq_queue", "delete", "ordres", "--dry-run"],
    ],
)
def test_whoever_mistypes_a_queue_is_told_which_was_meant(database: str, run: Run, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"There is no queue 'ordres'.* Did you mean 'orders'\?"):
        run(*arguments)


def test_a_declared_queue_that_does_not_exist_yet_is_called_declared(
    database: str, run: Run, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {"later": {}}}

    with pytest.raises(CommandError, match=r"There is no queue 'later'\. It is declared: .* sync creates it"):
        run("mq_pause", "later")


def test_nothing_is_suggested_where_nothing_is_like_it(database: str, run: Run) -> None:
    with pytest.raises(CommandError, match=r"There is no queue 'xyz'\.$"):
        run("mq_browse", "xyz")


@pytest.mark.parametrize(
    ("holds", "force", "said"),
    [
        (0, [], "would be deleted."),
        (1, [], "would not be deleted: it holds messages, and --force is not given."),
        (1, ["--force"], "would be deleted, and 1 message with it."),
    ],
)
def test_a_dry_deletion_deletes_nothing(database: str, run: Run, holds: int, force: list[str], said: str) -> None:
    for _ in range(holds):
        publish("orders")

    assert run("mq_queue", "delete", "orders", "--dry-run", *force) == f"Queue 'orders' {said}\n"

    assert Queue.objects.using(database).filter(name="orders").exists()
    assert Message.objects.using(database).count() == holds


def test_a_dry_deletion_of_a_dead_letter_queue_says_whose_it_is(database: str, run: Run) -> None:
    run("mq_queue", "create", "dead")
    run("mq_queue", "create", "letters", "--dead-letter-queue=dead", "--expiry-queue=dead")

    why = "it is the dead-letter or expiry queue of 'letters'"
    assert run("mq_queue", "delete", "dead", "--dry-run") == f"Queue 'dead' would not be deleted: {why}.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["mq_move", "\udcff", "orders"],
        ["mq_move", "orders", "\udcff"],
        ["mq_redrive", "\udcff"],
        ["mq_pause", "\udcff"],
        ["mq_queue", "create", "\udcff"],
        ["mq_queue", "delete", "\udcff"],
        ["mq_workers", "--queue", "\udcff"],
        ["mq_redrive", "--error", "\udcff"],
    ],
)
def test_what_is_typed_in_no_utf_8_is_refused(database: str, run: Run, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="udcff' is no text: write it in UTF-8") as refusal:
        run(*arguments)

    assert refusal.value.returncode == 2


def test_a_probe_takes_no_age_that_nothing_reaches(database: str, run: Run) -> None:
    for age in ("nan", "inf"):
        with pytest.raises(CommandError, match="must be a finite number"):
            run("mq_health", "--max-age", age)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["mq_pause", "orders", "--seconds", number] for number in ("nan", "inf", "-1", "0", "1e300")),
        *(["mq_top", "--count", "2", "--interval", number] for number in ("nan", "inf", "-1", "1e300")),
        *(["mq_queue", "edit", "orders", "--history-days", number] for number in ("nan", "1e30", "4000000")),
        ["mq_queue", "edit", "orders", "--backoff-cap-seconds", "1e300"],
    ],
    ids=" ".join,
)
def test_a_number_that_makes_no_sense_is_refused(database: str, run: Run, arguments: list[str]) -> None:
    before = list(Queue.objects.using(database).values())

    with pytest.raises(CommandError):
        run(*arguments)

    assert list(Queue.objects.using(database).values()) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["orders", "--allow", "api", "17", "--amount=0", "--seconds=1"], "amount of a rate"),
        (["orders", "--allow", "api", "17", "--at-once=0"], "At least one"),
        (["orders", "--allow", "api", "17"], "how many"),
        (["--forget", "api", "17"], "Name the queue"),
    ],
)
def test_an_exception_of_a_limit_says_something(database: str, run: Run, arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run("mq_limits", *arguments)
