"""mq_types: what runs and what fails, on a terminal and for scripts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from django_mq.delivery.queues import declare
from django_mq.diagnosis.state import by_type
from django_mq.models import Attempt, History
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from datetime import datetime

    from tests.commands.conftest import Run


def fill(alias: str) -> datetime:
    """Write two finished messages and a failed attempt; return when they ended."""
    ended = timezone.now() - timedelta(minutes=1)
    for queue, seconds in (("orders", 90), ("mails", 0.25)):
        declare(shared_store(alias), queue)
        History.objects.using(alias).create(
            message_id=uuid4(),
            queue_name=queue,
            type=f"{queue}.sent\x1b[2J",
            priority=4,
            outcome=1,
            attempts=0,
            published_at=ended,
            ready_at=ended - timedelta(seconds=seconds + 2),
            claimed_at=ended - timedelta(seconds=seconds),
            finished_at=ended,
        )
    Attempt.objects.using(alias).create(
        message_id=uuid4(), queue_name="orders", type="", number=1, failed_at=ended, error="ValueError"
    )
    return ended


def test_what_took_most_stands_first_and_drives_no_terminal(database: str, run: Run) -> None:
    ended = fill(database)

    ran, failed = run("mq_types").split("\n\n")

    first, second, over, only = ran.splitlines()[1:]
    assert first.split() == ["orders.sent\\x1b[2J", "orders", "1", *["2", "s"] * 3, *["1", "min", "30", "s"] * 4]
    assert second.split()[-2:] == ["250", "ms"]
    assert over.startswith("Counted over all 2 finished messages since 20")
    assert only == "Only those that were accepted are shown."
    assert failed.splitlines()[1].split() == [
        "ValueError",
        "-",
        "orders",
        "1",
        *f"{ended:%Y-%m-%d %H:%M:%S} UTC".split(),
    ]


def test_scripts_are_given_what_the_page_gives(database: str, run: Run) -> None:
    fill(database)

    found = json.loads(run("mq_types", "mails", "--span", "day", "--json"))

    assert (found["span"], found["failures"]["rows"]) == ("day", [])
    assert [(row["queue"], row["accepted"], row["held_p99"]) for row in found["runs"]["rows"]] == [
        ("mails", 1, 0.25)
    ]


def test_of_more_than_it_reads_it_says_so(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_type, "NEWEST", 1)
    fill(database)

    assert "Counted over the newest 1 finished messages" in run("mq_types")


def test_where_nothing_happened_it_says_since_when(database: str, run: Run) -> None:
    assert "Counted over all 0 failed attempts since 20" in run("mq_types")


def test_an_unknown_queue_is_an_error_and_one_of_the_past_is_none(database: str, run: Run) -> None:
    fill(database)
    shared_store(database).deletions.delete_queue("mails")

    assert "mails.sent" in run("mq_types", "mails")
    with pytest.raises(CommandError, match="There is no queue 'nowhere'"):
        run("mq_types", "nowhere")
