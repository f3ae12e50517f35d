"""Web processes that are killed while they work on all that match: whoever goes on does the rest, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.utils import timezone

from django_mq.api import publish_many
from django_mq.delivery.letters import Letter
from django_mq.models import Message, Operation
from tests.journeys.site import ROOT

if TYPE_CHECKING:
    from tests.journeys.site import Site

#: More than five batches.
MESSAGES = 2_600
#: After which statements of theirs processes are killed: in the preparation, in batches, between them.
KILLED_AFTER = (6, 17, 24, 38)


def test_an_operation_whose_processes_are_killed_is_done_once_by_those_who_go_on(site: Site) -> None:
    operation = begun(site)

    for statements in KILLED_AFTER:
        process = going_on(site, operation, str(statements))
        assert process.wait() == -signal.SIGKILL
    operation.refresh_from_db(using=site.alias)
    assert operation.status == Operation.Status.RUNNING
    assert 0 < operation.tried < MESSAGES

    # Two go on at once: the last to begin does it, the other leaves it alone.
    codes = [process.wait() for process in [going_on(site, operation), going_on(site, operation)]]

    operation.refresh_from_db(using=site.alias)
    assert codes == [0, 0]
    assert (operation.status, operation.tried, operation.changed) == ("done", MESSAGES, MESSAGES)
    assert not site.rows()
    assert len({row.message_id for row in site.finished()}) == len(site.finished()) == MESSAGES


def begun(site: Site) -> Operation:
    """Return the removal of all messages of a queue, written down, and begun by nobody."""
    User.objects.db_manager(site.alias).create_superuser("operator")
    site.declare("orders")
    publish_many([Letter(queue="orders", body=number) for number in range(MESSAGES)], using=site.alias)
    newest = Message.objects.using(site.alias).latest("id").id
    now = timezone.now()
    return Operation.objects.using(site.alias).create(
        act="cancel", filters={"queue": "orders"}, user_name="operator", newest=newest, created_at=now, beat_at=now
    )


def going_on(site: Site, operation: Operation, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that goes on with it."""
    command = [sys.executable, "-m", "tests.journeys.project.operate", str(operation.pk), *arguments]
    return subprocess.Popen(command, env=site.environment(), cwd=ROOT, stdin=subprocess.DEVNULL)
