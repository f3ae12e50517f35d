"""Failed attempts get their groups: each is counted once, and the counts agree with the attempts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import IntegrityError
from django.db.models import Count, Max, Min
from django.utils import timezone

from django_mq.failures import groups
from django_mq.failures.groups import KEPT, LATE, forget_old, group_new
from django_mq.models import Attempt, Deploy, FailureGroup, FailureTally, GroupedFailure, Message
from django_mq.stores.registry import shared_store
from tests.failures.conftest import TRACEBACK, grouped
from tests.stores.builders import publish

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from pytest_django import Settings


def test_alike_failures_are_one_group_with_the_figures_of_its_attempts(
    alias: str, fail: Callable[..., Attempt]
) -> None:
    now = timezone.now()
    for number in range(7):
        fail(
            failed_at=now - timedelta(minutes=9 * number),
            type=("invoice", "receipt")[number % 2],
            worker=f"w{number % 3}",
            traceback=TRACEBACK.format(line=number),
        )
    fail("KeyError", detail="", traceback="")

    groups = grouped(alias)

    group = groups["ValueError"]
    alike = Attempt.objects.using(alias).filter(error="ValueError")
    figures = alike.aggregate(failures=Count("pk"), first=Min("failed_at"), last=Max("failed_at"))
    assert (group.failures, group.first_at, group.last_at) == (
        figures["failures"],
        figures["first"],
        figures["last"],
    )
    for name in ("type", "worker"):
        counted = dict(alike.order_by().values_list(name).annotate(Count("pk")))
        assert getattr(group, f"{name}s") == counted
    assert (group.place, group.text) == ("shop/consumers.py in send_invoice", "order <id> is gone")
    assert (groups["KeyError"].place, groups["KeyError"].text, groups["KeyError"].failures) == ("", "", 1)
    tallies = FailureTally.objects.using(alias).filter(group=group)
    assert sum(tally.failures for tally in tallies) == 7
    assert {tally.begins_at.minute % 10 for tally in tallies} == {0}


def id_of(row: int, alias: str) -> UUID:
    return Message.objects.using(alias).get(pk=row).message_id


def test_a_group_has_the_tenants_of_its_messages_and_the_versions_in_which_they_failed(
    alias: str, fail: Callable[..., Attempt], settings: Settings
) -> None:
    now, store = timezone.now(), shared_store(alias)
    for version, minutes in (("1.0", 60), ("1.1", 10)):
        Deploy.objects.using(alias).create(version=version, first_at=now - timedelta(minutes=minutes))
    for minutes, tenant in ((90, "acme"), (30, "acme"), (5, "zenith"), (1, None)):
        row = publish(store, "orders", headers=json.dumps({"tenant": tenant} if tenant else {}))
        fail(message_id=id_of(row, alias), failed_at=now - timedelta(minutes=minutes))
    task = publish(store, "orders", headers=json.dumps({"tenant": "acme"}), correlation_id="task")
    fail(message_id=None, correlation_id="task")
    group = grouped(alias)["ValueError"]
    assert (group.tenants, group.versions) == ({"acme": 3, "zenith": 1}, {"1.0": 1, "1.1": 3})

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["tenant"]}
    fail(message_id=id_of(task, alias))
    assert grouped(alias)["ValueError"].tenants == {"acme": 3, "zenith": 1}


def test_an_attempt_is_counted_once_however_often_the_duty_runs(alias: str, fail: Callable[..., Attempt]) -> None:
    fail()
    grouped(alias)
    fail()

    assert group_new(shared_store(alias), 500) == 1
    assert group_new(shared_store(alias), 500) == 0
    assert grouped(alias)["ValueError"].failures == 2


def test_of_two_processes_that_count_the_same_one_counts(alias: str, fail: Callable[..., Attempt]) -> None:
    fail()
    found = groups._failed(groups._new(shared_store(alias), 500), alias)
    grouped(alias)

    with pytest.raises(IntegrityError):
        groups._count(found, alias)

    assert grouped(alias)["ValueError"].failures == 1


def test_an_attempt_that_commits_late_is_counted(alias: str, fail: Callable[..., Attempt]) -> None:
    now = timezone.now()
    fail(failed_at=now)
    grouped(alias)
    fail(failed_at=now - LATE + timedelta(seconds=10))

    assert grouped(alias)["ValueError"].failures == 2


def test_a_batch_is_bounded(alias: str, fail: Callable[..., Attempt]) -> None:
    for _ in range(3):
        fail()

    assert [group_new(shared_store(alias), 2) for _ in range(3)] == [2, 1, 0]


def test_hostile_texts_have_groups(alias: str, fail: Callable[..., Attempt]) -> None:
    fail(
        "<script>" + "x" * 240,
        detail="'\"<b>\u202e" + "é" * 5000,
        traceback="File " * 1000,
        worker="",
        type="ü" * 255,
    )
    fail("E", queue_name="q" * 200, worker="\\" * 255, traceback='File "\u202e", line 1, in <x>')

    assert {group.failures for group in grouped(alias).values()} == {1}


def test_what_is_old_is_forgotten(alias: str, fail: Callable[..., Attempt]) -> None:
    attempt = fail()
    fail("KeyError")
    groups = grouped(alias)
    long_ago = timezone.now() - KEPT - timedelta(days=1)
    FailureGroup.objects.using(alias).filter(pk=groups["KeyError"].pk).update(last_at=long_ago)
    FailureTally.objects.using(alias).update(begins_at=long_ago)
    attempt.delete()

    deleted = forget_old(shared_store(alias), 100)

    assert deleted["groups"] == 1
    assert {group.error for group in FailureGroup.objects.using(alias)} == {"ValueError"}
    assert not GroupedFailure.objects.using(alias).exists()
    assert not FailureTally.objects.using(alias).exists()
