"""What operators did: the list of acts, the page of one, reasons, commands, and what puts messages back."""

from __future__ import annotations

import io
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import call_command, get_commands, load_command_class
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.acts.command_lines import NamedMessages
from django_mq.acts.extension import prune
from django_mq.acts.models import Act, ActedMessage
from django_mq.acts.operators import of_site
from django_mq.acts.recorder import new_act, write
from django_mq.admin.actions import Action
from django_mq.admin.messages.actions import ACTIONS
from django_mq.admin.operations import runner
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.management.messages import read_filters
from django_mq.models import Message, Operation
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of, page_of, run_action, said
from tests.admin.test_permissions import CASES, Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


def listed(client: Client, query: str = "") -> list[tuple[str, str, str, str]]:
    found = client.get(f"{list_of('act')}{query}").context["cl"].result_list
    return [(act.user_name, act.model, act.name, act.about) for act in found]


def parsed(command: str) -> dict[str, Any]:
    """Return what the command reads of a line."""
    shell = ["bash", "-c", f"printf '%s\\0' {command}"]
    printed = subprocess.run(shell, stdout=subprocess.PIPE, check=True).stdout.decode()
    python, manage, name, *words = printed.split("\0")[:-1]
    assert (python, manage) == ("python", "manage.py")
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    return vars(parser.parse_args(words))


def test_what_was_done_to_queues_messages_and_workers_is_on_one_page(
    site: str, browse: Client, make: Make
) -> None:
    message, session = make.message(DEAD), make.session()
    run_action(browse, "queue", "pause", [message.queue], reason="<b>stock take</b>")
    run_action(browse, "message", "redrive", [message], yes="yes")
    run_action(browse, "workersession", "quiet", [session], yes="yes")
    browse.post("/admin/auth/group/add/", {"name": "readers"})

    page = browse.get(list_of("act")).content.decode()

    assert listed(browse) == [
        ("operator", "workersession", "quiet", session.name),
        ("operator", "message", "redrive", ""),
        ("operator", "queue", "pause", "orders"),
    ]
    assert "&lt;b&gt;stock take" in page
    assert [row[2] for row in listed(browse, "?q=stock+TAKE")] == ["pause"]
    assert [row[2] for row in listed(browse, f"?q={message.message_id}")] == ["redrive"]
    assert [row[2] for row in listed(browse, "?name=quiet&user_name=operator&interface__exact=admin")] == ["quiet"]
    for act in Act.objects.all():
        assert act.command.split()[2] in browse.get(page_of(act)).content.decode()


@pytest.mark.django_db
def test_what_a_form_changes_is_an_act(browse: Client, make: Make) -> None:
    binding = {"queue": make.queue().pk, "exchange": "sales", "exchange_type": "direct", "pattern": "x"}
    browse.post(f"{list_of('binding')}add/", binding | {"selector": ""})

    assert [row[1:3] for row in listed(browse)] == [("binding", "add")]


@pytest.mark.django_db
def test_who_may_not_view_a_table_sees_nothing_that_was_done_to_it(
    login_with: Callable[..., Client], make: Make, browse: Client
) -> None:
    message = make.message(DEAD)
    run_action(browse, "queue", "pause", [message.queue], reason="x")
    run_action(browse, "message", "redrive", [message], yes="yes")
    words = "operator: Redriven"

    assert words in browse.get(page_of(message)).content.decode()
    reader = login_with("view_act", "view_queue", "view_message")
    assert words in reader.get(page_of(message)).content.decode()
    User.objects.filter(username="reader").delete()
    reader = login_with("view_act", "view_queue")
    assert [row[1] for row in listed(reader)] == ["queue"]
    User.objects.filter(username="reader").delete()
    stranger = login_with("view_message")
    assert stranger.get(list_of("act")).status_code == 403
    assert words not in stranger.get(page_of(message)).content.decode()


@pytest.mark.django_db
def test_many_acts_take_no_more_statements_than_one(browse: Client, make: Make) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert browse.get(list_of("act")).status_code == 200
        return len(captured)

    run_action(browse, "queue", "pause", [make.queue()], reason="x")
    statements()
    few = statements()
    for number in range(10):
        run_action(browse, "queue", "pause", [make.queue(f"q{number}")], reason="x")

    assert statements() == few


COMMANDED = [case for case in CASES if case.model != "operation" and not case.name.startswith("delete_selected")]


@pytest.mark.parametrize("case", COMMANDED, ids=[f"{case.model}-{case.name}" for case in COMMANDED])
@pytest.mark.django_db
def test_an_action_names_a_command_that_reads_it(case: Case, browse: Client, make: Make) -> None:
    row = case.row(make)
    make.queue("elsewhere")

    run_action(browse, case.model, case.name, [row], **case.answers)

    act = Act.objects.order_by("pk").filter(model=case.model, name=case.name).latest("pk")
    options = parsed(act.command)
    assert options
    names = [getattr(row, field) for field in ("name", "message_id", "label", "pk") if hasattr(row, field)]
    assert any(str(name) in act.command for name in names)


FILTERS = {
    "queue": "-odd name",
    "state": str(READY.value),
    "type": "it's; rm -rf / \n\x03\u202e\\$(x)",
    "attempts": "3",
    "worker": "7",
    "published": "day",
    "q": "tenant:a b",
}


@pytest.mark.django_db
def test_a_command_reads_the_filters_of_the_list(browse: Client, make: Make) -> None:
    make.queue("-odd name")
    rows = [make.message(DEAD) for _ in range(2)]
    for action in ACTIONS:
        assert action.command is not None
        given = FILTERS | ({"state": str(CLAIMED.value)} if action.name == "stop" else {})
        command = action.command(NamedMessages(given), {"reason": "-x", "target": "t", "priority": 3})
        assert command.isprintable()
        options = parsed(command)
        assert dict(options["filters"]) | read_filters("default", options) == given, action.name

    data = {"action": "cancel", "select_across": "1", "_selected_action": [rows[0].pk]}
    page = browse.post(f"{list_of('message')}?state={DEAD_LETTERS}", data).content.decode()
    assert f"mq_cancel --yes --filter=state={DEAD_LETTERS}" in page


def test_a_stop_of_what_does_not_run_names_no_command() -> None:
    [stop] = [action for action in ACTIONS if action.name == "stop"]

    assert stop.command is not None
    assert stop.command(NamedMessages({"state": str(READY.value)}), {}) == ""


@pytest.mark.django_db
def test_many_messages_take_a_reason(browse: Client, make: Make, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "ACTS_REASON_ABOVE": 1}
    rows = [make.message(DEAD) for _ in range(2)]

    for answers in ({}, {"yes": "yes"}, {"reason": "  "}):
        response = run_action(browse, "message", "redrive", rows, **answers)
        assert "reason" in response.context["form"].fields
    assert Message.objects.filter(state=DEAD).count() == 2

    run_action(browse, "message", "redrive", rows, reason="<i>wrong</i> deploy")
    [act] = Act.objects.all()
    assert (act.reason, act.count, act.messages.count()) == ("<i>wrong</i> deploy", 2, 2)
    assert "&lt;i&gt;wrong" in browse.get(list_of("act")).content.decode()
    run_action(browse, "message", "cancel", rows[:1], yes="yes")
    assert Act.objects.count() == 2


@pytest.mark.django_db
def test_a_refused_act_is_none(browse: Client, make: Make) -> None:
    make.queue("closed", closed=True)
    queue = make.message(READY).queue

    run_action(browse, "queue", "delete_selected", [queue], yes="yes")

    assert Act.objects.count() == 0


def test_a_move_is_put_back_once_as_far_as_it_is_there(site: str, browse: Client, make: Make) -> None:
    orders, elsewhere = make.queue(), make.queue("elsewhere")
    rows = [make.message(state) for state in (READY, SCHEDULED, READY, READY)]
    rows.append(make.message(DEAD, dead_reason="broken", dead_at=rows[0].published_at))
    run_action(browse, "message", "move", rows, target="elsewhere")
    act = Act.objects.using(site).get()
    gone, held = Message.objects.filter(message_id__in=[row.message_id for row in rows[2:4]]).order_by("pk")
    gone.delete()
    session = make.session()
    Message.objects.filter(pk=held.pk).update(state=CLAIMED, session_id=session.pk, claim=1)
    assert "Put these 5 messages back" in browse.get(page_of(act)).content.decode()

    asked = browse.post(list_of("act"), {"action": "undo", "_selected_action": [act.pk]}).content.decode()
    response = run_action(browse, "act", "undo", [act], yes="yes")

    assert "elsewhere" in asked
    assert f"mq_acts --undo={act.pk}" in asked
    assert said(response) == [
        "Put back: 3 of 5 messages. Left alone: 1 held by a worker, 1 no longer where the action left it."
    ]
    back = Message.objects.filter(queue=orders).order_by("state").values_list("state", "dead_reason")
    assert list(back) == [(SCHEDULED, ""), (READY, ""), (DEAD, "broken")]
    assert Message.objects.filter(queue=elsewhere).count() == 1
    undone = Act.objects.using(site).latest("pk")
    assert (undone.name, undone.undoes_id, undone.count) == ("undo", act.pk, 3)
    assert page_of(act) in browse.get(page_of(undone)).content.decode()
    assert "Target queue: elsewhere" in browse.get(page_of(act)).content.decode()

    Message.objects.filter(pk=held.pk).update(state=READY, session_id=None, claim=None)
    again = run_action(browse, "act", "undo", [act], yes="yes")
    assert said(again) == ["Put back: 1 of 2 messages. Left alone: 1 no longer where the action left it."]


def test_redriven_dead_letters_are_dead_again(site: str, browse: Client, make: Make) -> None:
    letters = make.queue("letters")
    orders = make.queue(dead_letter_queue=letters)
    in_place = make.message(DEAD, queue=orders, dead_reason="broken", dead_at="2026-01-01T00:00:00Z")
    headers = {"x-origin-queue": "orders"}
    moved = make.message(READY, queue=letters, dead_reason="rejected", headers=headers)
    run_action(browse, "message", "redrive", [in_place, moved], yes="yes")
    assert not Message.objects.filter(state=DEAD).exists()
    act = Act.objects.using(site).get()

    run_action(browse, "act", "undo", [act], yes="yes")

    now = Message.objects.order_by("state").values_list("queue__name", "state", "dead_reason")
    assert list(now) == [("letters", READY, "rejected"), ("orders", DEAD, "broken")]


@pytest.mark.django_db
def test_an_operation_in_the_background_is_one_act(
    browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.messages.selection.LIMIT", 1)
    rows = [make.message(DEAD, type="bill") for _ in range(3)]
    data = {"action": "redrive", "select_across": "1", "_selected_action": [rows[0].pk]}
    browse.post(f"{list_of('message')}?type=bill", data, follow=True)
    operation = Operation.objects.get()

    runner.run(operation.pk, using="default")

    [act] = Act.objects.all()
    assert (act.operation_id, act.count, act.criterion) == (operation.pk, 3, {"filters": {"type": "bill"}})
    assert act.sentence.startswith("done: 3 changed")
    assert ActedMessage.objects.filter(act=act, came_from="orders").count() == 3
    assert "mq_redrive --type=bill" in act.command
    assert "type: bill" in browse.get(page_of(act)).content.decode().lower()


@pytest.mark.django_db
def test_acts_have_their_times_without_use_tz(browse: Client, make: Make, settings: Settings) -> None:
    settings.TIME_ZONE, settings.USE_TZ = "Asia/Tokyo", False
    run_action(browse, "message", "reschedule", [make.message()], deliver_at="2131-05-31T18:00")
    act, now = Act.objects.get(), datetime.now(UTC)
    hour = timedelta(hours=1)

    assert now - hour < act.began_at <= now
    assert parsed(act.command)["at"] == "2131-05-31T09:00:00+00:00"
    for end, found in ((now + hour, 1), (now - hour, 0)):
        span = urlencode({"since": (now - 2 * hour).isoformat(), "until": end.isoformat()})
        assert len(listed(browse, f"?{span}")) == found
    assert "2131-05-31T09:00:00" in browse.get(page_of(act)).content.decode()
    out = io.StringIO()
    call_command("mq_acts", stdout=out)
    assert f"{act.began_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}" in out.getvalue()


@pytest.mark.django_db
def test_what_no_database_stores_is_left_out_of_an_act(make: Make) -> None:
    hostile = "a\x00b\ud800"
    values = {"about": hostile, "command": hostile, "reason": hostile, "criterion": {"filters": {"q": [hostile]}}}

    act = new_act(of_site("operator"), "message", "move", **values, answers={"target": hostile})
    write(act, using="default")

    found = Act.objects.values_list("about", "command", "reason", "criterion", "answers").get()
    assert found == ("ab?", "ab?", "ab?", {"filters": {"q": ["ab?"]}}, {"target": "ab?"})


@pytest.mark.django_db
def test_old_acts_are_deleted_with_their_messages(make: Make) -> None:
    message_id = make.message().message_id
    for days in (91, 100, 89):
        given = {"began_at": timezone.now() - timedelta(days=days), "user_name": "a", "model": "message"}
        act = Act.objects.create(name=f"of {days}", **given)
        act.messages.create(message_id=message_id, came_from="a", went_to="b")

    rounds = [prune(shared_store("default"), 3) for _ in range(3)]

    assert rounds == [4, 0, 0]
    assert list(Act.objects.values_list("name", flat=True)) == ["of 89"]
    assert ActedMessage.objects.count() == 1


def test_every_action_of_a_page_names_a_command() -> None:
    actions = {
        (page.model._meta.model_name, action.name): action
        for page in admin.site._registry.values()
        for action in page.actions or ()
        if isinstance(action, Action)
    }

    assert [name for name, action in actions.items() if action.command is None] == []
