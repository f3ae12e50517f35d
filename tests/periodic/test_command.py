"""``mq_periodic`` lists and steers."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_mq.models import Message
from django_mq.periodic.models import PeriodicMessage
from tests.periodic.conftest import a_row


def run(*args: str, **options: Any) -> str:
    out = StringIO()
    call_command("mq_periodic", *args, stdout=out, **options)
    return out.getvalue()


def test_periodic_messages_are_listed_and_steered(alias: str) -> None:
    assert "There are no periodic messages." in run(database=alias)
    a_row(alias, cron="0 3 * * 1", tz="Europe/Berlin")

    assert "At 03:00 on Monday, Europe/Berlin" in run(database=alias)
    assert "paused" in run("pause", "report", database=alias, reason="holidays")
    [listed] = json.loads(run("list", database=alias, json=True))
    assert (listed["paused"], listed["reason"], listed["next"]) == (True, "holidays", [])
    run("run", "report", database=alias)
    assert Message.objects.using(alias).count() == 1
    run("resume", "report", database=alias)
    [listed] = json.loads(run(database=alias, json=True))
    assert (len(listed["next"]), listed["last_run"]["outcome"]) == (5, "pending")
    run("delete", "report", database=alias)
    assert not PeriodicMessage.objects.using(alias).exists()


def test_periodic_messages_are_created_and_changed(alias: str) -> None:
    given = ["cron=0 3 * * 1", "queue=reports", 'body={"days": 7}', "start_at=2026-01-01T00:00:00+00:00"]
    said = run("create", "report", *[f"--set={each}" for each in given], database=alias)
    assert "report: At 03:00 on Monday, UTC" in said
    assert "At 04:00 on Monday" in run("edit", "report", "--set=cron=0 4 * * 1", "--set=start_at=", database=alias)

    row = PeriodicMessage.objects.using(alias).get()
    assert (row.cron, row.body, row.queue, row.start_at) == ("0 4 * * 1", {"days": 7}, "reports", None)
    with pytest.raises(CommandError, match="There is a periodic message 'report'"):
        run("create", "report", "--set=cron=0 3 * * 1", database=alias)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["create", "report"], "create takes --set"),
        (["pause", "report", "--set", "cron=* * * * *"], "pause takes no --set"),
        (["create", "report", "--set", "colour=red"], "one of the fields cron"),
        (["create", "report", "--set", "body={"], "Expecting property name"),
        (["create", "report", "--set", "start_at=soon"], "Invalid isoformat"),
        (["create", "report", "--set", "every_seconds=60", "--set", "kind=mail"], "has the kind 'mail'"),
        (["create", "report", "--set", "every_seconds=0"], "every_seconds is 0"),
        (["create", "report", "--set", "every_seconds=60", "--set", "queue=gone"], "no queue 'gone'"),
        (["pause"], "takes the names"),
        (["list", "report"], "takes no names"),
        (["pause", "missing"], "no periodic message 'missing'"),
        (["list", "--dry-run"], "is for import-celery-beat"),
        (["import-celery-beat"], "no tables of django-celery-beat"),
    ],
)
def test_a_wrong_command_line_is_refused(alias: str, args: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(*args, database=alias)
