"""Processes that are killed, or stand still, while they work on all that match: the leader does the rest, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from django_mq.api import publish_many
from django_mq.delivery.publisher import OutgoingMessage
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.models import Message, Operation
from tests.journeys.site import ROOT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.on("postgresql")

#: More than five batches.
MESSAGES = 2_600
#: After which statements of theirs processes are killed: in the preparation, in batches, between them.
KILLED_AFTER = (6, 17, 24, 38)
#: After so many statements a process stands still, between two batches.
STOPPED_AFTER = 60


@pytest.mark.once
def test_an_operation_whose_processes_are_killed_is_done_once_by_the_leader(site: Site) -> None:
    operation = begun(site)
    for statements in KILLED_AFTER:
        process = going_on(site, operation, "kill", str(statements))
        assert process.wait() == -signal.SIGKILL
        stall(site, operation)
    operation.refresh_from_db(using=site.alias)
    assert operation.status == Operation.Status.RUNNING
    assert 0 < operation.tried < MESSAGES

    # Two leaders at once, each with a process of its own.
    with site.worker(), site.worker(name="other"):
        wait_until_over(site, operation)

    assert_done_once(site, operation)


@pytest.mark.once
def test_a_process_that_stood_still_leaves_the_operation_to_the_leader(site: Site) -> None:
    operation = begun(site)
    process = going_on(site, operation, "stop", str(STOPPED_AFTER))
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    stall(site, operation)
    operation.refresh_from_db(using=site.alias)
    assert 0 < operation.tried < MESSAGES

    with site.worker():
        wait_until_over(site, operation)
    process.send_signal(signal.SIGCONT)

    assert process.wait() == 0
    assert_done_once(site, operation)


def stall(site: Site, operation: Operation) -> None:
    """Let it have made no progress for so long that its process is taken for dead."""
    late = timezone.now() - timedelta(seconds=STALLED_SECONDS + 1)
    Operation.objects.using(site.alias).filter(pk=operation.pk).update(beat_at=late)


def wait_until_over(site: Site, operation: Operation) -> None:
    def is_over() -> bool:
        operation.refresh_from_db(using=site.alias)
        return operation.status != Operation.Status.RUNNING

    wait_until(is_over, site.story)


def assert_done_once(site: Site, operation: Operation) -> None:
    operation.refresh_from_db(using=site.alias)
    assert (operation.status, operation.tried, operation.changed) == ("done", MESSAGES, MESSAGES)
    assert not site.rows()
    assert len({row.message_id for row in site.finished()}) == len(site.finished()) == MESSAGES


def begun(site: Site) -> Operation:
    """Return the removal of all messages of a queue, written down, and not begun."""
    User.objects.db_manager(site.alias).create_superuser("operator")
    site.declare("orders")
    publish_many([OutgoingMessage(queue="orders", body=number) for number in range(MESSAGES)], using=site.alias)
    newest = Message.objects.using(site.alias).latest("id").id
    now = timezone.now()
    return Operation.objects.using(site.alias).create(
        act="cancel", filters={"queue": "orders"}, user_name="operator", newest=newest, created_at=now, beat_at=now
    )


def going_on(site: Site, operation: Operation, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that goes on with it."""
    command = [sys.executable, "-m", "tests.journeys.project.operate", str(operation.pk), *arguments]
    return subprocess.Popen(command, env=site.environment(), cwd=ROOT, stdin=subprocess.DEVNULL)
