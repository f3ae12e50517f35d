"""Periodic messages are made, changed, paused and run in the admin, each with its permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from django_mq.models import Message, Queue
from django_mq.periodic import editor
from django_mq.periodic.declared import follow
from django_mq.periodic.models import PeriodicMessage
from tests.periodic.conftest import a_row
from tests.periodic.test_declared import a_declaration

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.django_db
LIST = "admin:django_mq_periodicmessage_changelist"
FORM = {
    "name": "report",
    "cron": "0 3 * * 1",
    "tz": "Europe/Berlin",
    "kind": "message",
    "queue": "reports",
    "body": '{"n": 1}',
    "args": "[]",
    "kwargs": "{}",
    "options": "{}",
    "missed": "once",
    "most_missed": 100,
    "overlap": "queue",
    "jitter_seconds": 0,
}


@pytest.fixture(autouse=True)
def _queue() -> None:
    Queue.objects.create(name="reports")


def test_one_is_made_and_changed_and_its_next_ticks_are_shown(admin_client: Client) -> None:
    add = reverse("admin:django_mq_periodicmessage_add")
    assert admin_client.get(add).status_code == 200
    assert admin_client.post(add, FORM).status_code == 302
    row = PeriodicMessage.objects.get()
    assert row.next_at is not None

    page = reverse("admin:django_mq_periodicmessage_change", args=[row.pk])
    shown = admin_client.get(page).content.decode()
    assert "At 03:00 on Monday, Europe/Berlin" in shown
    assert admin_client.post(page, FORM | {"cron": "0 4 * * 1"}).status_code == 302
    assert PeriodicMessage.objects.get().cron == "0 4 * * 1"
    assert "At 04:00 on Monday" in admin_client.get(reverse(LIST)).content.decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cron": "0 0 30 2 *"}, "is wrong"),
        ({"cron": "", "every_seconds": "0"}, "every_seconds is 0"),
        ({"tz": "Mars/Base"}, "There is no time zone"),
        ({"queue": ""}, "has the queue"),
        ({"queue": "gone"}, "There is no queue"),
        ({"kind": "task", "target": "gone.task"}, "is no Django task"),
        ({"options": '{"dedup_id": "x"}'}, "has the options"),
        ({"options": '{"priority": "high"}'}, "priority must be a whole number"),
        ({"kind": "celery", "target": "x", "options": '{"headers": "x"}'}, "has the option headers"),
        (
            {"start_at_0": "2030-02-01", "start_at_1": "0:0", "end_at_0": "2030-02-01", "end_at_1": "1:0"},
            "never comes",
        ),
    ],
)
def test_what_cannot_be_is_said_on_the_form(admin_client: Client, wrong: dict[str, Any], words: str) -> None:
    answer = admin_client.post(reverse("admin:django_mq_periodicmessage_add"), FORM | wrong)

    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not PeriodicMessage.objects.exists()


def test_it_is_paused_resumed_and_run_now(admin_client: Client) -> None:
    row = a_row("default", cron="0 3 * * *")
    chosen = {"_selected_action": [row.pk]}
    admin_client.post(reverse(LIST), chosen | {"action": "pause", "confirmed": "1", "reason": "<b>holidays</b>"})
    row.refresh_from_db()
    assert (row.is_paused, row.paused_reason) == (True, "<b>holidays</b>")
    assert "<b>holidays" not in admin_client.get(reverse(LIST)).content.decode()

    admin_client.post(reverse(LIST), chosen | {"action": "resume"})
    admin_client.post(reverse(LIST), chosen | {"action": "run"})
    row.refresh_from_db()
    assert (row.is_paused, Message.objects.count()) == (False, 1)
    page = admin_client.get(reverse("admin:django_mq_periodicmessage_change", args=[row.pk])).content.decode()
    assert str(Message.objects.get().message_id) in page
    assert "by hand" in page


def test_what_an_operator_changed_of_a_declared_one_is_shown(admin_client: Client) -> None:
    follow("default", "code", [a_declaration()])
    row = PeriodicMessage.objects.get()
    row.cron = "0 5 * * *"
    editor.save(row, using="default")

    page = admin_client.get(reverse("admin:django_mq_periodicmessage_change", args=[row.pk])).content.decode()
    assert "the code declares 0 3 * * *" in page


def test_each_action_needs_its_permission(client: Client) -> None:
    row = a_row("default", cron="0 3 * * *")
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_periodicmessage"))
    client.force_login(user)
    for action in ("pause", "run"):
        client.post(
            reverse(LIST), {"_selected_action": [row.pk], "action": action, "confirmed": "1", "reason": "no"}
        )

    row.refresh_from_db()
    assert (row.is_paused, Message.objects.count()) == (False, 0)
