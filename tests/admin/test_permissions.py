"""Each action has a permission of its own: without it, it is neither offered nor done.

What there is to try is asked of the site, so that an action or a page without a case fails here.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import resolve, reverse
from django.utils import timezone

from django_mq.acts.models import Act
from django_mq.admin.table import ReadOnly
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.durable.models import DurableEvent
from django_mq.durable.sleeps import ASLEEP
from django_mq.models import (
    AcknowledgedLetter,
    Binding,
    Consumer,
    FailureGroup,
    History,
    LimitException,
    Message,
    Operation,
    Ownership,
    Queue,
    SnoozedAlert,
    StagedRedrive,
    StopRequest,
    UniqueKey,
    WorkerSession,
)
from django_mq.periodic.models import PeriodicMessage
from django_mq.results.models import StoredResult
from django_mq.workflows.models import WorkflowRun
from tests.admin.conftest import list_of, page_of, run_action
from tests.admin.rows import every_row, pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client, RequestFactory

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


class Case(NamedTuple):
    """An action, the permission it takes, a row it applies to, and what it asks."""

    model: str
    name: str
    permission: str
    row: Callable[[Make], Any]
    answers: dict[str, Any]
    #: A further permission to view it: what was done to a table is for users with that permission.
    sees: tuple[str, ...] = ()


def a_message(state: Message.Status) -> Callable[[Make], Any]:
    return lambda make: make.message(state)


def a_sleeping_message(make: Make) -> Any:
    return make.message(PARKED, park_key=ASLEEP)


def a_running_message(make: Make) -> Any:
    return make.message(CLAIMED, session=make.session(), claim=1)


def a_queue(**options: Any) -> Callable[[Make], Any]:
    """A queue with a dead message in it."""
    return lambda make: make.message(DEAD, queue=make.queue(**options)).queue


def a_queue_with_a_group(make: Make) -> Any:
    queue = a_queue(grouping="assigned")(make)
    Ownership.objects.create(queue_id=queue.pk, group_key="a", session_id=make.session().pk)
    return queue


def a_session(conduct: str) -> Callable[[Make], Any]:
    return lambda make: make.session(conduct=conduct)


def an_operation(status: str) -> Callable[[Make], Any]:
    """One that cancels."""
    now = timezone.now()
    values = {"act": "cancel", "user_name": "operator", "newest": 1, "created_at": now, "beat_at": now}
    return lambda _make: Operation.objects.create(status=status, **values)


def a_unique_key(make: Make) -> UniqueKey:
    given = {"digest": "a" * 64, "label": "a", "until": "finished", "owner": "1"}
    message_id = make.message(READY).message_id
    return UniqueKey.objects.create(**given, message_id=message_id, first_at=timezone.now())


def a_message_batch(state: str, *, failed: bool = False) -> Callable[[Make], Any]:
    def make_batch(make: Make) -> MessageBatch:
        row = MessageBatch.objects.create(id=uuid4(), state=state, created_at=timezone.now())
        if failed:
            letter = make.message(DEAD, dead_at=timezone.now())
            ids = {"id": uuid4(), "message_id": letter.message_id}
            BatchMember.objects.create(**ids, batch=row, state=2, queue_name="orders")
        return row

    return make_batch


def a_stored_result(_: Make) -> StoredResult:
    return StoredResult.objects.create(task_id="t", status="SUCCESS", content_type="application/json")


def a_durable_event(_: Make) -> DurableEvent:
    return DurableEvent.objects.create(name="paid", key="7")


def a_failure_group(make: Make) -> FailureGroup:
    return make.failure_group()


def a_snoozed_alert(make: Make) -> SnoozedAlert:
    return make.snoozed_alert()


def a_staged_redrive(status: str) -> Callable[[Make], Any]:
    return lambda make: make.staged_redrive(status=status)


def a_binding(make: Make) -> Binding:
    return Binding.objects.create(queue=make.queue(), exchange="sales", exchange_type="direct", pattern="x")


def a_periodic_message(**values: Any) -> Callable[[Make], Any]:
    given = {"name": "report", "cron": "0 3 * * *", "created_at": timezone.now()} | values
    return lambda make: PeriodicMessage.objects.create(queue=make.queue().name, **given)


def a_workflow(state: str) -> Callable[[Make], Any]:
    def write(make: Make) -> WorkflowRun:
        make.queue()
        id_ = uuid4()
        given = {"name": "report", "version": "a", "graph": '[{"name": "a", "queue": "orders"}]', "input": "1"}
        times = {"created_at": timezone.now(), "ended_at": timezone.now() if state == "failed" else None}
        run = WorkflowRun.objects.create(id=id_, root=id_, state=state, **given, **times)
        run.steps.create(name="a", state="failed" if state == "failed" else "ready")
        return run

    return write


def an_act(make: Make) -> Act:
    """A move that can be undone."""
    message = make.message(READY)
    act = Act.objects.create(began_at=timezone.now(), user_name="operator", model="message", name="move")
    way = {"came_from": "elsewhere", "went_to": "orders", "row_id": message.pk}
    act.messages.create(message_id=message.message_id, **way)
    return act


def an_exception(_: Make) -> LimitException:
    return LimitException.objects.create(queue_name="q", limit_name="api", limited_key="17", amount=50, seconds=1)


YES = {"yes": "yes"}
CASES = [
    Case("act", "undo", "undo_act", an_act, YES, ("view_message",)),
    Case("message", "release", "release_message", a_message(CLAIMED), YES),
    Case("message", "move", "move_message", a_message(READY), {"target": "elsewhere"}),
    Case("message", "cancel", "cancel_message", a_message(READY), YES),
    Case("message", "stop", "stop_message", a_running_message, YES),
    Case("message", "deliver_now", "deliver_message_now", a_message(SCHEDULED), {}),
    Case("message", "reschedule", "reschedule_message", a_message(READY), {"deliver_at": "2131-05-31T18:00"}),
    Case("message", "prioritise", "prioritise_message", a_message(READY), {"priority": 9}),
    Case("message", "acknowledge", "add_acknowledgedletter", a_message(DEAD), {"reason": "known"}),
    Case("message", "redrive", "redrive_message", a_message(DEAD), {}),
    Case("queue", "pause", "pause_queue", a_queue(), {"reason": "stock take"}),
    Case("queue", "resume", "pause_queue", a_queue(paused=True), {}),
    Case("queue", "free_groups", "free_groups_queue", a_queue_with_a_group, YES),
    Case("queue", "purge", "purge_queue", a_queue(), {"typed": "purge"}),
    Case("queue", "redrive", "redrive_message", a_queue(), YES),
    Case("queue", "delete_selected", "delete_queue", lambda make: make.queue(), YES),
    Case("binding", "delete_selected", "delete_binding", a_binding, {"post": "yes"}),
    Case("uniquekey", "free", "free_uniquekey", a_unique_key, YES),
    Case("limitexception", "delete_selected", "delete_limitexception", an_exception, {"post": "yes"}),
    Case("storedresult", "forget", "forget_storedresult", a_stored_result, YES),
    Case("workersession", "quiet", "quiet_workersession", a_session("work"), YES),
    Case("workersession", "work", "quiet_workersession", a_session("quiet"), {}),
    Case("workersession", "stop", "stop_workersession", a_session("work"), YES),
    Case("workersession", "limit", "limit_workersession", a_session("work"), {"credit": "3"}),
    Case("periodicmessage", "pause", "pause_periodicmessage", a_periodic_message(), {"reason": "holidays"}),
    Case("periodicmessage", "resume", "pause_periodicmessage", a_periodic_message(is_paused=True), {}),
    Case("periodicmessage", "run", "run_periodicmessage", a_periodic_message(), {}),
    Case("periodicmessage", "delete_selected", "delete_periodicmessage", a_periodic_message(), {"post": "yes"}),
    Case("messagebatch", "close", "close_messagebatch", a_message_batch("open"), YES),
    Case("messagebatch", "cancel", "cancel_messagebatch", a_message_batch("running"), YES),
    Case("messagebatch", "redrive", "redrive_messagebatch", a_message_batch("failed", failed=True), YES),
    Case("messagebatch", "delete", "delete_messagebatch", a_message_batch("succeeded"), YES),
    Case("workflowrun", "retry", "retry_workflowrun", a_workflow("failed"), YES),
    Case("workflowrun", "cancel", "cancel_workflowrun", a_workflow("running"), {"reason": "known"}),
    Case("workflowrun", "delete", "delete_workflowrun", a_workflow("failed"), YES),
    Case("message", "wake", "wake_durablestep", a_sleeping_message, YES),
    Case("durableevent", "emit", "emit_durableevent", a_durable_event, YES),
    Case("durableevent", "delete", "delete_durableevent", a_durable_event, YES),
    Case("failuregroup", "redrive", "redrive_message", a_failure_group, YES),
    Case("snoozedalert", "delete_selected", "delete_snoozedalert", a_snoozed_alert, {"post": "yes"}),
    Case("stagedredrive", "stop", "redrive_message", a_staged_redrive("running"), {}),
    Case("stagedredrive", "go_on", "redrive_message", a_staged_redrive("stopped"), {}),
    Case("operation", "stop", "cancel_message", an_operation("running"), {}),
    Case("operation", "go_on", "cancel_message", an_operation("stopped"), {}),
]
#: Actions with the view permission; they change nothing.
HARMLESS = {"download_json", "download_csv"}
MESSAGE_ACTIONS = [case for case in CASES if case.model == "message"]
every_case = pytest.mark.parametrize("case", CASES, ids=[f"{case.model}-{case.name}" for case in CASES])
on_messages = pytest.mark.parametrize("case", MESSAGE_ACTIONS, ids=[case.name for case in MESSAGE_ACTIONS])

pytestmark = pytest.mark.django_db


def picture() -> list[Any]:
    """Return all that an action could have changed."""
    return [
        *Message.objects.order_by("pk").values_list("pk", "queue__name", "state", "priority"),
        *Queue.objects.values_list("name", "paused", "levels"),
        *Binding.objects.values_list("exchange", "pattern"),
        *LimitException.objects.values_list("limited_key", "amount"),
        *WorkerSession.objects.values_list("conduct", "given_credit"),
        *Operation.objects.values_list("act", "status"),
        *StagedRedrive.objects.values_list("status"),
        *AcknowledgedLetter.objects.values_list("row_id"),
        *SnoozedAlert.objects.values_list("kind"),
        *Ownership.objects.values_list("group_key"),
        *StopRequest.objects.values_list("message_id"),
        *PeriodicMessage.objects.values_list("name", "is_paused"),
        *UniqueKey.objects.values_list("digest"),
        *MessageBatch.objects.values_list("state"),
        *DurableEvent.objects.values_list("name", "emitted_at"),
        *WorkflowRun.objects.values_list("state"),
        *StoredResult.objects.values_list("task_id"),
    ]


def offered(client: Client, model: str) -> set[str]:
    """Return the actions that the list offers, without those of a reader."""
    form = client.get(list_of(model)).context["action_form"]
    return {name for name, _ in form.fields["action"].choices if name} - HARMLESS if form else set()


def on_page(client: Client, row: Any) -> set[str]:
    """Return the actions that the row's own page offers."""
    return set(dict(client.get(page_of(row)).context.get("buttons", ())))


def test_every_action_of_every_page_has_a_case(rf: RequestFactory, operator: User) -> None:
    request = rf.get("/")
    request.user = operator

    actions = {(model, name) for model, page in pages().items() for name in page.get_actions(request)}

    reading = [("message", name) for name in HARMLESS]
    assert sorted(actions) == sorted([*((case.model, case.name) for case in CASES), *reading])


def test_every_permission_of_ours_has_a_case() -> None:
    models = [page.model for page in pages().values()]
    own = {codename for model in models for codename, _ in model._meta.permissions}

    assert own <= {case.permission for case in CASES}


@every_case
def test_without_its_permission_an_act_is_not_there(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    others = {other.permission for other in CASES} - {case.permission}
    client = login_with(f"view_{case.model}", *case.sees, *others)
    before = picture()

    run_action(client, case.model, case.name, [row], **case.answers)

    assert picture() == before
    assert case.name not in on_page(client, row)
    if case.model != "operation":  # their buttons are always shown
        assert case.name not in offered(client, case.model)


@every_case
def test_its_permission_is_all_that_an_act_takes(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    client = login_with(f"view_{case.model}", *case.sees, case.permission)
    before = picture()
    offers = offered(client, case.model)

    run_action(client, case.model, case.name, [row], **case.answers)

    alike = {other.name for other in CASES if (other.model, other.permission) == (case.model, case.permission)}
    assert offers == alike
    assert picture() != before
    assert LogEntry.objects.count() == 1


@every_case
def test_without_the_permission_to_view_an_act_cannot_be_reached(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    client = login_with(case.permission)
    before = picture()

    response = run_action(client, case.model, case.name, [row], **case.answers)

    assert (response.status_code, picture()) == (403, before)


@on_messages
def test_an_operation_on_all_that_match_takes_the_same_permission(
    case: Case, login_with: Callable[..., Client], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.messages.selection.LIMIT", 1)
    chosen = [case.row(make) for _ in range(3)]
    make.queue("elsewhere")
    answers = {"action": case.name, "select_across": "1", "_selected_action": [chosen[0].pk], "confirmed": "yes"}

    def ask(*permissions: str) -> list[str]:
        User.objects.all().delete()
        client = login_with("view_message", *permissions)
        client.post(list_of("message"), answers | case.answers, follow=True)
        return list(Operation.objects.values_list("act", flat=True))

    assert ask(*(other.permission for other in MESSAGE_ACTIONS if other != case)) == []
    assert ask(case.permission) == [case.name]
    assert LogEntry.objects.count() == 1


def addresses_by_name(rows: dict[str, Any]) -> dict[str, str]:
    """Return every address that the pages answer to, of a table or of a row of it, by its name."""
    found = {}
    for model, page in pages().items():
        for pattern in page.get_urls():
            takes = getattr(pattern.pattern, "converters", {}) if pattern.name else None
            if takes is not None:
                pk = rows[model].pk if model in rows else 1
                given = {"object_id": pk, "message_id": rows["message"].message_id}
                found[pattern.name] = reverse(f"admin:{pattern.name}", args=[given[name] for name in takes])
    return found


def addresses(rows: dict[str, Any]) -> list[str]:
    return list(addresses_by_name(rows).values())


#: The permissions of which each alone opens a page that Django's admin does not have, by the name of its address.
OPENED_BY = {
    **dict.fromkeys(["queue_overview", "queue_overview_json", "queue_charts", "queue_space"], ("view_queue",)),
    **dict.fromkeys(["workersession_running", "workersession_running_json"], ("view_workersession",)),
    **dict.fromkeys(["history_types", "history_types_json"], ("view_history",)),
    "bridgelink_bridges": ("view_bridgelink",),
    "workersession_stop_running": (),  # it takes three
    "queue_tenants": (),  # two
    "message_add": ("add_message",),
    "message_canvas": ("view_message",),
    "message_search": ("view_message", "view_history", "view_attempt"),
    "message_life": ("view_message", "view_history", "view_attempt", "view_taskresult"),
}
#: What the pages of Django's admin take, by the ends of their names.
STANDARD = {"changelist": "view", "change": "view", "history": "view", "add": "add", "delete": "delete"}
#: Tables whose texts are on pages of others: a message is shown with its failed attempts and its worker.
SHOWN_WITH = {
    "message": {"attempt", "workersession"},
    "history": {"attempt", "workersession"},
    "taskresult": {"attempt"},
    "consumer": {"workersession"},
    "stagedredrive": {"failuregroup"},
}


def openers(name: str) -> set[str]:
    """Return the permissions of which each alone opens an address. Raises KeyError for one without a rule."""
    own = name.removeprefix("django_mq_")
    if own in OPENED_BY:
        alone = OPENED_BY[own]
        return {*alone, *(one.replace("view_", "change_") for one in alone)}
    model, _, end = own.rpartition("_")
    page = pages()[model]
    if end in {"add", "delete"}:
        return set() if isinstance(page, ReadOnly) else {f"{end}_{model}"}
    return {f"{STANDARD[end]}_{model}", f"change_{model}"}


OPEN = {200}
#: Of a row that the user may not know of, Django's admin says that it is not there.
CLOSED = {302, 403, 404}


class Visitor:
    """A member of the staff with some permissions, asking for pages without the middleware of a site."""

    def __init__(self, rf: RequestFactory, *permissions: str) -> None:
        self._rf = rf
        self.has = set(permissions)
        self._user = User.objects.create_user(" ".join(permissions)[:150] or "none", is_staff=True)
        known = Permission.objects.filter(content_type__app_label="django_mq", codename__in=permissions)
        self._user.user_permissions.set(known)

    def ask(self, address: str, data: dict[str, Any] | None = None) -> tuple[int, str]:
        """Return the status of the answer to a GET, or to a POST of the data, and its text."""
        request: Any = self._rf.get(address) if data is None else self._rf.post(address, data)
        request.user, request.session, request._dont_enforce_csrf_checks = self._user, {}, True
        request._messages = CookieStorage(request)
        request.resolver_match = found = resolve(request.path)
        try:
            response = found.func(request, *found.args, **found.kwargs)
        except PermissionDenied:
            return 403, ""
        except Http404:
            return 404, ""
        if hasattr(response, "render"):
            response.render()
        return response.status_code, unescape(response.getvalue().decode())


def mark_of(model: str) -> str:
    return f"Zz{model}zZ"


def marks_in(text: str) -> set[str]:
    """Return the tables of which a page has a text."""
    return set(re.findall("Zz([a-z]+)zZ", text))


def test_each_address_opens_for_its_permissions_only(rf: RequestFactory, make: Make) -> None:
    """Permissions only add: what some of them together do not open, none of them does."""
    found = addresses_by_name(every_row(make, mark_of))
    before = picture()
    acting = {case.permission for case in CASES} - {f"delete_{model}" for model in pages()}
    together = [set[str](), acting, *({f"{way}_{model}" for model in pages()} for way in ("add", "delete"))]
    wrong = []

    for visitor in [Visitor(rf, *permissions) for permissions in together]:
        for name, address in found.items():
            expected = OPEN if visitor.has & openers(name) else CLOSED
            codes = {visitor.ask(address)[0], *(() if expected is OPEN else [visitor.ask(address, YES)[0]])}
            if not codes <= expected:
                wrong.append((sorted(visitor.has), name, codes))

    assert wrong == []
    assert picture() == before


def test_with_the_permission_to_view_one_table_no_text_of_another_one_is_on_any_page(
    rf: RequestFactory, make: Make
) -> None:
    found = addresses_by_name(every_row(make, mark_of))
    wrong, leaks = [], []

    for model in pages():
        visitor = Visitor(rf, f"view_{model}")
        for name, address in found.items():
            status, text = visitor.ask(address)
            if status not in (OPEN if visitor.has & openers(name) else CLOSED):
                wrong.append((model, name, status))
            leaks += [(model, name, mark) for mark in marks_in(text) - {model, *SHOWN_WITH.get(model, ())}]

    assert wrong == []
    assert leaks == []


@pytest.fixture
def rows(make: Make) -> dict[str, Any]:
    """A row of each table that has actions, and of those beside them."""
    session = make.session()
    message = make.message(DEAD)
    consumer = Consumer.objects.create(session=session, queue_name="orders")
    one = {"queue": message.queue, "message": message, "workersession": session, "consumer": consumer}
    one["binding"] = Binding.objects.create(queue=message.queue, exchange="sales", exchange_type="fanout")
    return one | {"operation": an_operation("running")(make), "history": make.history(), "attempt": make.attempt()}


def test_who_has_no_permission_sees_no_page(login_with: Callable[..., Client], rows: dict[str, Any]) -> None:
    client = login_with()
    before = picture()
    found = addresses(rows)

    answers = {
        address: (client.get(address).status_code, client.post(address, YES).status_code) for address in found
    }

    # A row that is not there is told by a way back to the index, which is empty for this user.
    assert {address: codes for address, codes in answers.items() if not set(codes) <= {302, 403}} == {}
    assert all(answers[address] == (403, 403) for address in map(list_of, pages()))
    assert all(answers[page_of(row)] == (403, 403) for row in rows.values())
    assert picture() == before


def test_a_reader_of_everything_sees_all_pages_and_changes_nothing(
    login_with: Callable[..., Client], rows: dict[str, Any]
) -> None:
    client = login_with(*(f"view_{model}" for model in pages()))
    before = picture()
    given = {"post": "yes", "confirmed": "yes", "levels": 3, "paused": "on", "queue": "orders", "body": "1"}

    seen = {
        address: client.get(address).status_code
        for address in [*map(list_of, pages()), *map(page_of, rows.values())]
    }
    for address in addresses(rows):
        client.post(address, given)

    assert set(seen.values()) == {200}
    assert picture() == before
    assert LogEntry.objects.count() == 0
    assert [offered(client, model) for model in pages() if model not in {"insighthour", "operation"}] == [
        set()
    ] * (len(pages()) - 2)


def test_a_reader_sees_a_queue_and_changes_nothing(login_with: Callable[..., Client], make: Make) -> None:
    queue = make.queue()
    client = login_with("view_queue")

    looked = client.get(page_of(queue))
    changed = client.post(page_of(queue), {"levels": 3})
    deleted = client.post(page_of(queue, "delete"), {"confirmed": "yes"})

    assert (looked.status_code, changed.status_code, deleted.status_code) == (200, 403, 403)
    assert looked.context["buttons"] == []
    assert Queue.objects.exists()


def test_without_the_permission_to_view_there_is_nothing_to_see(
    login_with: Callable[..., Client], make: Make
) -> None:
    message = make.message()
    client = login_with("view_queue")

    assert client.get(list_of("message")).status_code == 403
    assert client.get(page_of(message)).status_code == 403


@pytest.mark.parametrize(
    "model", ["workersession", "consumer", "history", "attempt", "archivebatch", "bulkjob", "taskresult", "chord"]
)
def test_nobody_adds_changes_or_deletes_what_is_only_looked_at(model: str, browse: Client) -> None:
    assert browse.get(f"/admin/django_mq/{model}/").status_code == 200
    assert browse.get(f"/admin/django_mq/{model}/add/").status_code == 403
    assert "delete_selected" not in offered(browse, model)


def test_a_finished_message_is_neither_changed_nor_deleted(browse: Client, make: Make) -> None:
    run_action(browse, "message", "cancel", [make.message()], yes="yes")
    row = History.objects.get()

    assert browse.post(page_of(row), {"type": "other"}).status_code == 403
    assert browse.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
