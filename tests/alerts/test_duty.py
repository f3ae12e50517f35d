"""The leader looks, and the admin and the command show what was found."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management import call_command

from django_mq.alerts.extension import look_now
from django_mq.alerts.observed import observe
from django_mq.checks import check_settings
from django_mq.models import Queue
from django_mq.stores.registry import shared_store
from django_mq.testing import QueueTester

if TYPE_CHECKING:
    import pytest
    from pytest_django import Settings

TEAM = {"team": {"email": ["team@example.com"], "level": "notice", "causes": ["paused"]}}


def test_what_needs_a_look_is_recorded_sent_and_over(
    committed_database: str, settings: Settings, mailoutbox: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "ALERTS": TEAM, "ALERTS_AFTER_SECONDS": 0}
    alias, store = committed_database, shared_store(committed_database)
    row = Queue.objects.using(alias).create(name="orders", paused=True, paused_reason="stock take")
    assert ("paused", "orders") in {each.identity for each in observe(alias)}

    with QueueTester() as mq:
        look_now(store)
        mq.move_clock(timedelta(seconds=30))
        assert look_now(store)["sent"] == 1
        call_command("mq_alerts", "--json")
        shown = json.loads(capsys.readouterr().out)
        [shown] = [each for each in shown if each["cause"] == "paused"]
        assert (shown["cause"], shown["about"], shown["level"]) == ("paused", "orders", "notice")
        row.delete()
        mq.move_clock(timedelta(seconds=400))
        assert look_now(store)["sent"] == 1

    assert [sent.subject for sent in mailoutbox] == [
        "[django_mq] notice paused orders",
        "[django_mq] notice paused orders: over after 30 s.",
    ]
    call_command("mq_alerts", "--all")
    assert "notice   paused  orders" in capsys.readouterr().out


def test_a_wrong_target_is_told_by_the_check(settings: Settings) -> None:
    settings.DJANGO_MQ = {"ALERTS": {"ops": {"webhook": "t0p-s3cret"}}}

    [found] = [each for each in check_settings() if each.id == "django_mq.E015"]
    assert "'ops' has a webhook that is no http://" in str(found.msg)
    assert "s3cret" not in str(found.msg)
