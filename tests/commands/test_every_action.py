"""Each action of the admin has a command, with --dry-run where it changes many messages."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.core.management import load_command_class

from django_mq.admin.messages import actions as message_actions
from django_mq.admin.queues import actions as queue_actions
from django_mq.admin.workers import actions as worker_actions
from django_mq.models import Binding, LimitException, Message, Queue, SnoozedAlert
from django_mq.periodic.models import PeriodicMessage

if TYPE_CHECKING:
    from argparse import Namespace

    from django.contrib.auth.models import User
    from django.test import RequestFactory

ONE = "01a201cd-5077-70e7-a724-ae5470e6df0b"
#: The command for each action of each page. A new action needs a line here, and so a command.
COMMANDS = {
    ("message", "redrive"): f"mq_redrive {ONE}",
    ("message", "acknowledge"): f"mq_acknowledge {ONE} --why known",
    ("message", "deliver_now"): f"mq_reschedule {ONE} --now",
    ("message", "wake"): f"mq_wake {ONE}",
    ("message", "reschedule"): f"mq_reschedule {ONE} --delay 60",
    ("message", "prioritise"): f"mq_prioritise {ONE} --to 9",
    ("message", "move"): f"mq_move --to orders {ONE}",
    ("message", "release"): f"mq_release {ONE}",
    ("message", "cancel"): f"mq_cancel {ONE}",
    ("message", "stop"): f"mq_cancel --running {ONE}",
    ("message", "download_json"): f"mq_download --match {ONE}",
    ("message", "download_csv"): f"mq_download --csv --match {ONE}",
    ("act", "undo"): "mq_acts --undo 1",
    ("queue", "pause"): "mq_pause orders",
    ("queue", "resume"): "mq_resume orders",
    ("queue", "redrive"): "mq_redrive orders",
    ("queue", "purge"): "mq_purge orders",
    ("queue", "free_groups"): "mq_groups orders --free-all",
    ("queue", "delete_selected"): "mq_queue delete orders",
    ("uniquekey", "free"): "mq_unique a --free",
    ("storedresult", "forget"): "mq_results forget t",
    ("workersession", "quiet"): "mq_workers --quiet worker@host",
    ("workersession", "work"): "mq_workers --work worker@host",
    ("workersession", "stop"): "mq_workers --stop worker@host",
    ("workersession", "limit"): "mq_workers --credit 5 worker@host",
    ("periodicmessage", "pause"): "mq_periodic pause report",
    ("periodicmessage", "resume"): "mq_periodic resume report",
    ("periodicmessage", "run"): "mq_periodic run report",
    ("messagebatch", "close"): f"mq_batches close {ONE}",
    ("messagebatch", "cancel"): f"mq_batches cancel {ONE} --running --why wrong",
    ("messagebatch", "redrive"): f"mq_batches redrive {ONE}",
    ("messagebatch", "delete"): f"mq_batches delete {ONE}",
    ("workflowrun", "retry"): f"mq_workflows retry {ONE}",
    ("workflowrun", "cancel"): f"mq_workflows cancel {ONE} --reason known",
    ("workflowrun", "delete"): f"mq_workflows delete {ONE}",
    ("durableevent", "emit"): "mq_events emit paid 7 --payload 5",
    ("durableevent", "delete"): "mq_events delete paid 7",
    ("failuregroup", "redrive"): "mq_redrive --failure 7",
    ("stagedredrive", "stop"): "mq_failures --stop 7",
    ("stagedredrive", "go_on"): "mq_failures --continue 7",
    ("operation", "stop"): "mq_operations --stop 7",
    # With its user's permissions, in a process of the site: the same filters go to the act's own command instead.
    ("operation", "go_on"): f"mq_redrive {ONE}",
}
#: The command for each page that adds, changes or deletes a row.
PAGES = {
    (Message, "add"): "mq_publish orders 1",
    (Queue, "add"): "mq_queue create orders",
    (Queue, "change"): "mq_queue edit orders --max-attempts 5",
    (Queue, "delete"): "mq_queue delete orders",
    (PeriodicMessage, "add"): "mq_periodic create report --set every_seconds=60",
    (PeriodicMessage, "change"): "mq_periodic edit report --set every_seconds=60",
    (PeriodicMessage, "delete"): "mq_periodic delete report",
    (SnoozedAlert, "add"): "mq_snooze dead orders --why known --hours 2",
    (SnoozedAlert, "delete"): "mq_snooze --end 7",
    (Binding, "add"): "mq_bindings --bind events orders",
    (Binding, "change"): "mq_bindings --bind events orders --pattern new",
    (Binding, "delete"): "mq_bindings --unbind events orders",
    (LimitException, "add"): "mq_limits orders --allow default 17 --amount 50 --seconds 1",
    (LimitException, "change"): "mq_limits orders --allow default 17 --at-once 3",
    (LimitException, "delete"): "mq_limits orders --forget default 17",
}
#: Those that are gone, or changed by the thousand, when it was a mistake.
DRY = ("message", "redrive", "purge", "delete_selected")


def parsed(line: str) -> Namespace:
    name, *arguments = shlex.split(line)
    return load_command_class("django_mq", name).create_parser("manage.py", name).parse_args(arguments)


def ours() -> dict[str, admin.ModelAdmin]:
    registered = admin.site._registry.items()
    return {model._meta.model_name: one for model, one in registered if model._meta.app_label == "django_mq"}


def test_every_action_of_every_page_has_a_command() -> None:
    actions = {
        (name, getattr(action, "__name__", action))
        for name, page in ours().items()
        for action in page.actions or ()
    }

    assert actions == set(COMMANDS)


def test_every_act_is_an_action() -> None:
    assert {one.name for one in queue_actions.ACTIONS} == {name for page, name in COMMANDS if page == "queue"}
    assert {one.name for one in message_actions.ACTIONS} <= {name for page, name in COMMANDS if page == "message"}
    assert {act.name for act in worker_actions.ACTIONS} == {
        name for page, name in COMMANDS if page == "workersession"
    }


@pytest.mark.django_db
def test_every_page_that_writes_has_a_command(admin_user: User, rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = admin_user
    pages = set()
    for page in ours().values():
        for way in ("add", "change", "delete"):
            if getattr(page, f"has_{way}_permission")(request):
                pages.add((page.model, way))

    assert pages == set(PAGES)


@pytest.mark.parametrize("line", sorted({*COMMANDS.values(), *PAGES.values()}))
def test_each_of_them_is_a_command_line_that_scripts_can_read(line: str) -> None:
    assert "json" in parsed(line) or "csv" in parsed(line)  # a download is JSON unless it is CSV


@pytest.mark.parametrize("act", [act for act in COMMANDS if set(act) & set(DRY) and "download" not in act[1]])
def test_what_deletes_or_changes_much_can_be_tried_before(act: tuple[str, str]) -> None:
    assert "dry_run" in parsed(COMMANDS[act])
