"""An operator who is logged in, and rows to look at.

Rows are written by the ORM, in any state a test needs; what the pages do to them goes through
the store. Users and sessions stay on the default database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse
from django.utils import timezone

from django_mq.models import (
    Attempt,
    FailureGroup,
    History,
    Message,
    Queue,
    SnoozedAlert,
    StagedRedrive,
    WorkerSession,
)
from tests.conftest import ALIASES, hold_queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings


def beside_default() -> list[Any]:
    """Return a parameter per kind of database; users live on the default one, wherever the queues are."""
    return [
        pytest.param(alias, id=name, marks=pytest.mark.django_db(databases=sorted({"default", alias})))
        for alias, name in ALIASES.items()
    ]


@pytest.fixture(params=beside_default())
def site(request: pytest.FixtureRequest, settings: Settings) -> str:
    """A site whose queues live on each kind of database in turn."""
    return hold_queues(settings, request.param)


class Make:
    """Writes rows, filling in what a test does not care about."""

    def queue(self, name: str = "orders", **options: Any) -> Queue:
        return Queue.objects.create(name=name, **options)

    def message(
        self, state: Message.Status = Message.Status.READY, queue: Queue | None = None, **values: Any
    ) -> Message:
        """Write a message in any state; without a queue it goes to ``orders``."""
        queue = queue or Queue.objects.filter(name="orders").first() or self.queue()
        given = {"level": 4, "priority": 4, "message_id": uuid4(), "published_at": timezone.now()}
        given |= {"content_type": "application/json", "body": b"{}"}
        return Message.objects.create(queue=queue, state=state, **given | values)

    def session(self, name: str = "worker@host", *, late: bool = False, **values: Any) -> WorkerSession:
        """Write a session that lives, or one that is two minutes past its deadline."""
        heartbeat = timezone.now() - timedelta(minutes=3 if late else 0)
        given = {"kind": "native", "host": "host", "pid": 4711, "version": "0.1", "queues": ["orders"]}
        given |= {"credit": 20, "started_at": heartbeat - timedelta(hours=3), "heartbeat_at": heartbeat}
        return WorkerSession.objects.create(
            name=name, **given | {"deadline": heartbeat + timedelta(minutes=1)} | values
        )

    def history(self, **values: Any) -> History:
        """Write the end of a message that waited two minutes and ran five seconds."""
        now = timezone.now()
        given = {"message_id": uuid4(), "queue_name": "orders", "priority": 4, "outcome": 1, "attempts": 0}
        given |= {"published_at": now, "ready_at": now, "claimed_at": now + timedelta(minutes=2)}
        return History.objects.create(**given | {"finished_at": now + timedelta(seconds=125)} | values)

    def failure_group(self, error: str = "ValueError", **values: Any) -> FailureGroup:
        """Write a group of seven failures, the last one now."""
        now = timezone.now()
        given = {"fingerprint": uuid4().hex, "failures": 7, "first_at": now - timedelta(hours=2), "last_at": now}
        given |= {"place": "shop/consumers.py in send_invoice", "text": "order <n> is gone"}
        given |= {"types": {"invoice": 7}, "queues": {"orders": 7}, "workers": {"worker@host": 7}}
        return FailureGroup.objects.create(error=error, **given | values)

    def staged_redrive(self, **values: Any) -> StagedRedrive:
        """Write a redrive of ten messages of a group, of which nine have succeeded and one has failed."""
        times = dict.fromkeys(("created_at", "paced_at", "beat_at"), timezone.now())
        given = {"group": self.failure_group(), "first": 10, "newest": 0, "user_name": "operator"}
        given |= {"sent": 10, "succeeded": 9, "failed": 1}
        return StagedRedrive.objects.create(**times, **given | values)

    def snoozed_alert(self, kind: str = "dead", about: str = "orders", **values: Any) -> SnoozedAlert:
        now = timezone.now()
        given = {"reason": "known", "until": now + timedelta(hours=1), "created_at": now}
        return SnoozedAlert.objects.create(kind=kind, about=about, **given | values)

    def attempt(self, **values: Any) -> Attempt:
        given = {"message_id": uuid4(), "queue_name": "orders", "number": 1, "failed_at": timezone.now()}
        return Attempt.objects.create(**given | {"error": "ValueError"} | values)


@pytest.fixture
def make() -> Make:
    """What writes the rows of a test."""
    return Make()


@pytest.fixture
def operator() -> User:
    """A superuser."""
    return User.objects.create_superuser("operator", password="operator")


@pytest.fixture
def browse(client: Client, operator: User) -> Client:
    """A client logged in as the operator."""
    client.force_login(operator)
    return client


@pytest.fixture
def login_with(client: Client) -> Callable[..., Client]:
    """Return a client that is logged in as a staff member with these permissions only."""

    def login(*codenames: str) -> Client:
        user = User.objects.create_user("reader", password="reader", is_staff=True)
        found = Permission.objects.filter(codename__in=codenames, content_type__app_label="django_mq")
        assert len(found) == len(codenames)
        user.user_permissions.set(found)
        client.force_login(user)
        return client

    return login


def list_of(model: str) -> str:
    """Return the address of a table's list."""
    return reverse(f"admin:django_mq_{model}_changelist")


def page_of(row: Any, page: str = "change") -> str:
    """Return the address of one row's page."""
    return reverse(f"admin:django_mq_{row._meta.model_name}_{page}", args=[row.pk])


def run_action(client: Client, model: str, action: str, rows: list[Any], **answers: Any) -> Any:
    """Post an action for some rows, as the list does; answers are those of the confirmation page."""
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    if answers:
        data |= {"confirmed": "yes", **answers}
    return client.post(list_of(model), data, follow=True)


def said(response: Any) -> list[str]:
    """Return what the page tells its user at the top."""
    return [str(message) for message in response.context["messages"]]
