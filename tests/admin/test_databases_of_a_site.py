"""Sites whose databases are set up otherwise: reads from a replica, a transaction around each request."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from django_mq.models import Message, Queue, TaskResult
from tests.admin.conftest import list_of, page_of, run_action, said
from tests.admin.rows import pages
from tests.admin.test_permissions import Case, every_case, picture, rows
from tests.conftest import ALIASES

if TYPE_CHECKING:
    from django.db.models import Model
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

__all__ = ["rows"]  # a fixture of theirs

pytestmark = pytest.mark.django_db


class ReadsElsewhere:
    """A router that reads our tables from another database, which a test here may not touch."""

    def db_for_read(self, model: type[Model], **_: Any) -> str | None:
        return "postgresql" if model._meta.app_label == "django_mq" else None


@pytest.fixture
def replica(settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.ReadsElsewhere"]


@pytest.fixture
def atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)


@pytest.mark.skipif("postgresql" not in ALIASES, reason="no other database here")
def test_every_page_reads_where_the_queues_are(
    browse: Client, make: Make, rows: dict[str, Any], replica: None
) -> None:
    now = timezone.now()
    result = TaskResult.objects.create(
        message_id=uuid4(),
        queue_name="orders",
        successful=True,
        record="{}",
        expires_at=now,
        started_at=now,
        last_attempted_at=now,
        finished_at=now,
    )
    others = make.queue("orders.dead"), result
    Queue.objects.using("default").filter(name="orders").update(dead_letter_queue=others[0])
    found = [*map(list_of, pages()), *map(page_of, [*rows.values(), *others]), f"{list_of('queue')}overview/"]
    copy = f"{list_of('message')}add/?copy={rows['message'].pk}"

    codes = {address: browse.get(address).status_code for address in [*found, copy]}

    assert set(codes.values()) == {200}


@pytest.mark.skipif("postgresql" not in ALIASES, reason="no other database here")
@pytest.mark.parametrize(
    "command", ["mq_queues", "mq_workers", "mq_doctor", "mq_health", "mq_browse orders --state all"]
)
def test_every_command_that_looks_reads_where_the_queues_are(
    command: str, rows: dict[str, Any], replica: None
) -> None:
    with suppress(SystemExit):  # by which it says that something is wrong with a queue
        call_command(*command.split())


@pytest.mark.skipif("postgresql" not in ALIASES, reason="no other database here")
@every_case
def test_every_act_looks_and_writes_where_the_queues_are(
    case: Case, browse: Client, make: Make, settings: Settings
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    before = picture()
    routers = settings.DATABASE_ROUTERS
    settings.DATABASE_ROUTERS = [f"{__name__}.ReadsElsewhere"]

    run_action(browse, case.model, case.name, [row])
    run_action(browse, case.model, case.name, [row], **case.answers)

    settings.DATABASE_ROUTERS = routers
    assert picture() != before


@every_case
def test_every_act_is_done_in_the_transaction_of_a_request(
    case: Case, browse: Client, make: Make, atomic: None
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    before = picture()

    response = run_action(browse, case.model, case.name, [row], **case.answers)

    assert response.status_code == 200
    assert picture() != before
    assert LogEntry.objects.count() == 1


def test_what_the_store_refuses_leaves_the_rest_of_a_requests_transaction(
    browse: Client, make: Make, atomic: None
) -> None:
    message = make.message(queue=make.queue("here"))
    full, kept = make.queue("full", max_messages=1, overflow="reject"), make.queue("kept")
    make.message(queue=full)

    refused = run_action(browse, "message", "move", [message], target="full")
    held = run_action(browse, "queue", "delete_selected", [full, kept], yes="yes")

    assert Message.objects.filter(queue=full).count() == 1
    assert said(refused)[0]
    assert "still holds messages" in " ".join(said(held))
    assert not Queue.objects.filter(name="kept").exists()
