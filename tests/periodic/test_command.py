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


@pytest.mark.parametrize(
    ("args", "words"),
    [
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
