"""mq_failures shows failed attempts in groups, and redrives a group in stages."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_mq.failures.groups import group_new
from django_mq.models import Attempt, Deploy, FailureGroup, StagedRedrive
from django_mq.stores.registry import shared_store

pytestmark = pytest.mark.django_db


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("mq_failures", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def group() -> FailureGroup:
    given = {"queue_name": "orders", "number": 1, "failed_at": timezone.now(), "type": "invoice"}
    Attempt.objects.create(error="ValueError", detail="order 7 is gone", message_id=uuid4(), **given)
    group_new(shared_store("default"), 500)
    return FailureGroup.objects.get()


def test_the_groups_are_shown(group: FailureGroup, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mq_failures")
    plain = capsys.readouterr().out
    [shown] = run(capsys)

    assert "ValueError: order <n> is gone" in plain
    assert (shown["failures"], shown["types"], shown["new_since"]) == (1, {"invoice": 1}, None)
    assert run(capsys, "--new") == []


def test_those_after_the_last_deploy_are_new(group: FailureGroup, capsys: pytest.CaptureFixture[str]) -> None:
    Deploy.objects.create(version="1.4.2", first_at=group.first_at)

    [shown] = run(capsys, "--new")

    assert shown["new_since"] == "1.4.2"


def test_a_redrive_is_begun_stopped_and_continued(group: FailureGroup, capsys: pytest.CaptureFixture[str]) -> None:
    begun = run(capsys, "--redrive", str(group.pk), "--first", "5", "--per-minute", "30")
    number = str(begun["redrive"])
    redrive = StagedRedrive.objects.get()

    assert (redrive.first, redrive.per_minute, redrive.user_name) == (5, 30.0, "")
    assert run(capsys, "--stop", number) == {"stopped": redrive.pk}
    assert [row["status"] for row in run(capsys, "--redrives")] == ["stopped"]
    assert run(capsys, "--continue", number) == {"continued": redrive.pk}
    with pytest.raises(CommandError, match="has not stopped"):
        run(capsys, "--continue", number)


def test_what_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="There is no failure group 7"):
        run(capsys, "--redrive", "7")
    with pytest.raises(CommandError, match="Redrive 7 does not run"):
        run(capsys, "--stop", "7")
