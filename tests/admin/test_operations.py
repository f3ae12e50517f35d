"""An action on all that match a filter: in the background, in batches, with progress that survives its process."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import OperationalError, connections
from django.urls import path
from django.utils import timezone

from django_mq.acts.operators import of_site
from django_mq.acts.recorder import new_act
from django_mq.admin import register
from django_mq.admin.messages.actions import CANCEL, MOVE, PRIORITISE, REDRIVE, RESCHEDULE
from django_mq.admin.messages.admin import MessageAdmin
from django_mq.admin.operations import runner
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.models import Message, Operation
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.test import Client
    from pytest_django import Settings

    from django_mq.acts.models import Act
    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
LATER = datetime(2131, 5, 31, 18, tzinfo=UTC)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, operator: User) -> None:
    """A page waits for two messages, a batch has three."""
    monkeypatch.setattr("django_mq.admin.messages.selection.LIMIT", 2)
    monkeypatch.setattr(runner, "BATCH", 3)


def act_of(user_name: str) -> Act:
    return new_act(of_site(user_name), "message", "any")


def begin(act_: Any = REDRIVE, filters: dict[str, str] | None = None, **answers: Any) -> Operation:
    """Write an operation down. Its thread waits for a commit that these tests never make."""
    return runner.begin(act_, filters or {}, answers, act=act_of("operator"))


def finished(operation: Operation, site: str) -> Operation:
    """Run it to its end, here."""
    runner.run(operation.pk, using=site)
    operation.refresh_from_db()
    return operation


def stall(operation: Operation) -> None:
    """Let it have made no progress for longer than a process takes for a batch."""
    late = timezone.now() - timedelta(seconds=STALLED_SECONDS + 1)
    Operation.objects.filter(pk=operation.pk).update(beat_at=late)


#: Begins a batch, and ends one, each as the database is told.
BATCH_BEGINS = re.compile(r"UPDATE .django_mq_operation. SET .cursor.")
BATCH_ENDS = re.compile(r"UPDATE .django_mq_operation. SET .changed.")


@contextmanager
def before(statement: re.Pattern[str], site: str, *happenings: Callable[[], object]) -> Iterator[None]:
    """Let something happen just before a statement, once each time it comes."""
    left = iter(happenings)

    def run(execute: Any, sql: str, *rest: Any) -> Any:
        if statement.match(sql):
            next(left, lambda: None)()
        return execute(sql, *rest)

    with connections[site].execute_wrapper(run):
        yield


def fail_with(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_all_that_match_are_tried_once_batch_by_batch(site: str, make: Make) -> None:
    for number in range(7):
        make.message(DEAD, type="a" if number < 5 else "b")
    make.message(CLAIMED, type="a")

    operation = finished(begin(CANCEL, {"type": "a"}), site)

    assert (operation.status, operation.expected, operation.tried, operation.changed) == ("done", 6, 6, 5)
    assert sorted(Message.objects.values_list("type", "state")) == [("a", CLAIMED), ("b", DEAD), ("b", DEAD)]


def test_a_retry_of_all_looks_at_dead_letters_only(site: str, make: Make) -> None:
    make.message(DEAD)
    make.message(READY, make.queue("letters"), dead_reason="boom", headers={"x-origin-queue": "orders"})
    for state in (READY, SCHEDULED, CLAIMED):
        make.message(state)

    operation = finished(begin(), site)

    assert (operation.expected, operation.tried, operation.changed) == (2, 2, 2)


def test_a_retry_of_all_on_a_page_counts_dead_letters_only(site: str, browse: Client, make: Make) -> None:
    for state in (DEAD, READY, SCHEDULED, CLAIMED):
        make.message(state)

    response = browse.post(
        list_of("message"), {"action": "redrive", "select_across": "1", "_selected_action": ["1"]}, follow=True
    )

    assert said(response) == ["Redriven: 1 of 1 message."]


def test_what_arrives_meanwhile_is_left_alone(site: str, make: Make) -> None:
    make.message(DEAD)
    operation = begin()
    late = make.message(DEAD)

    finished(operation, site)

    late.refresh_from_db(fields=["state"])
    assert late.state == DEAD


def test_answers_are_remembered(site: str, make: Make) -> None:
    target = make.queue("elsewhere")
    make.message(READY, make.queue("here"))
    make.message(READY, make.queue("there"))

    finished(begin(MOVE, {"queue": "here"}, target=target.name), site)
    finished(begin(PRIORITISE, {"queue": "there"}, priority=9), site)
    finished(begin(RESCHEDULE, {"queue": "there"}, deliver_at=LATER), site)

    assert Message.objects.get(queue=target)
    later = Message.objects.get(queue__name="there")
    assert (later.priority, later.state, later.deliver_at) == (9, SCHEDULED, LATER)


def test_an_operation_of_a_process_that_died_goes_on_where_it_was(site: str, make: Make) -> None:
    rows = [make.message(DEAD) for _ in range(5)]
    operation = begin()
    Operation.objects.filter(pk=operation.pk).update(cursor=rows[2].pk, tried=3, changed=3)

    operation = finished(operation, site)

    assert (operation.tried, operation.changed) == (5, 5)
    assert Message.objects.filter(state=READY).count() == 2


def test_somebody_who_takes_over_is_the_only_one_who_runs_it(site: str, make: Make) -> None:
    make.message(DEAD)
    operation = begin()
    Operation.objects.filter(pk=operation.pk).update(status=Operation.Status.STOPPED)

    finished(operation, site)

    assert operation.status == "stopped"
    assert not Message.objects.filter(state=READY).exists()


def test_what_the_store_refuses_fails_the_operation_with_its_reason(site: str, make: Make) -> None:
    target = make.queue("gone")
    make.message(READY, make.queue("here"))
    operation = begin(MOVE, {"queue": "here"}, target=target.name)
    target.delete()

    operation = finished(operation, site)

    assert (operation.status, operation.tried) == ("failed", 0)
    assert "gone" in operation.error


def test_selecting_all_of_many_begins_an_operation(site: str, browse: Client, make: Make) -> None:
    dead = [make.message(DEAD, type="a") for _ in range(4)]
    make.message(DEAD, type="b")
    data = {"action": "redrive", "_selected_action": [dead[0].pk], "select_across": "1"}

    response = browse.post(f"{list_of('message')}?type=a&p=1", data, follow=True)

    operation = Operation.objects.get()
    assert (operation.act, operation.filters, operation.expected) == ("redrive", {"type": "a"}, 4)
    assert operation.user_name == "operator"
    assert said(response) == ["Redrive: begun for all that match, some 4 messages."]
    assert "0 changed, 0 of 4 tried" in response.content.decode()
    assert '"type": "a"' in LogEntry.objects.get().change_message


def test_an_act_that_asks_says_that_there_is_more(site: str, browse: Client, make: Make) -> None:
    rows = [make.message() for _ in range(3)]
    data = {"action": "cancel", "_selected_action": [rows[0].pk], "select_across": "1"}

    asked = browse.post(list_of("message"), data)
    browse.post(list_of("message"), {**data, "confirmed": "yes"})

    assert "in the background" in asked.content.decode()
    operation = finished(Operation.objects.get(), site)
    assert (operation.act, operation.changed) == ("cancel", 3)
    assert not Message.objects.exists()


def test_the_page_counts_a_few_and_the_operation_all_it_is_to_try(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("formats", "admin.report", "admin.messages.selection"):
        monkeypatch.setattr(f"django_mq.{user}.COUNT_LIMIT", 3)
    rows = [make.message(DEAD) for _ in range(5)]
    data = {"action": "cancel", "_selected_action": [rows[0].pk], "select_across": "1"}

    asked = browse.post(list_of("message"), data)
    begun = browse.post(list_of("message"), {**data, "confirmed": "yes"}, follow=True)
    operation = Operation.objects.get()

    assert "3+ messages, in the background" in asked.content.decode()
    assert said(begun) == ["Cancel and remove: begun for all that match, some 3+ messages."]
    assert operation.expected == 3
    operation = finished(operation, site)
    assert (operation.expected, operation.tried, operation.changed) == (5, 5, 5)


def test_it_is_stopped_and_goes_on_by_hand(site: str, browse: Client, make: Make) -> None:
    make.message(DEAD)
    operation = begin()

    stopped = run_action(browse, "operation", "stop", [operation])
    again = run_action(browse, "operation", "stop", [operation])
    operation.refresh_from_db()
    assert operation.status == "stopped"
    run_action(browse, "operation", "go_on", [operation])
    operation.refresh_from_db()

    assert "It has stopped. (0 changed, 0 of 0 tried)" in said(stopped)[0]
    assert "nothing to do" in said(again)[0]
    assert operation.status == "running"


def test_an_operation_whose_process_is_gone_is_shown_as_that(site: str, browse: Client, make: Make) -> None:
    operation = begin()
    running = browse.get(page_of(operation)).content.decode()
    stall(operation)

    stalled = browse.get(page_of(operation)).content.decode()

    assert "no progress" not in running
    assert "no progress: a worker will continue it" in stalled
    assert 'http-equiv="refresh"' in stalled
    run_action(browse, "operation", "go_on", [operation])
    assert "no progress" not in browse.get(page_of(operation)).content.decode()


def test_what_has_stalled_is_taken_over_and_nothing_else(site: str, make: Make) -> None:
    for number in range(8):
        make.message(type="a" if number < 5 else "b")
    broken, dead, living = begin(CANCEL), begin(CANCEL, {"type": "a"}), begin(CANCEL, {"type": "b"})
    newer = begin(CANCEL, {"hue": "red"})
    Operation.objects.filter(pk=dead.pk).update(runner=uuid4())
    Operation.objects.filter(pk=broken.pk).update(filters=[])
    for operation in (dead, broken, newer):
        stall(operation)

    assert runner.take_over(using=site) == (1, [broken.pk, newer.pk])
    assert runner.take_over(using=site) == (0, [broken.pk, newer.pk])

    found = {operation.pk: operation.status for operation in Operation.objects.all()}
    # What a later version of this package has written is left to it.
    assert found == {dead.pk: "done", **dict.fromkeys((broken.pk, living.pk, newer.pk), "running")}
    assert Message.objects.count() == 3
    assert LogEntry.objects.get().change_message.startswith("done: 5 changed, 5 of 5 tried.")


def test_what_is_taken_over_ends_where_its_user_may_no_longer_do_it(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    login_with("cancel_message")
    make.message()
    operation = runner.begin(CANCEL, {}, {}, act=act_of("reader"))
    stall(operation)
    User.objects.get(username="reader").user_permissions.clear()

    runner.take_over(using=site)

    operation.refresh_from_db()
    assert (operation.status, Message.objects.count()) == ("failed", 1)


def test_a_process_that_is_told_to_end_leaves_the_rest_to_others(site: str, make: Make) -> None:
    for _ in range(5):
        make.message()
    operation = begin(CANCEL)
    asked = iter((False, True))

    runner.run(operation.pk, using=site, halted=lambda: next(asked))
    operation.refresh_from_db()
    assert (operation.status, operation.tried, Message.objects.count()) == ("running", 3, 2)

    stall(operation)
    runner.take_over(using=site)
    operation.refresh_from_db()
    assert (operation.status, operation.tried, operation.changed) == ("done", 5, 5)


def test_where_few_of_many_match_each_look_is_progress(
    site: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SLICE", 4)
    for number in range(17):
        make.message(type="rare" if number % 15 == 1 else "usual")
    operation = begin(CANCEL, {"type": "rare"})
    reached = []

    def note() -> None:
        reached.append(Operation.objects.get().tried)

    with before(BATCH_BEGINS, site, *[note] * 9):
        finished(operation, site)

    assert (operation.status, operation.tried, operation.changed) == ("done", 2, 2)
    assert reached == [0, 1, 1, 1]
    assert Message.objects.count() == 15


def test_it_ends_when_its_user_may_no_longer_do_it(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    login_with("view_message", "cancel_message")
    for _ in range(5):
        make.message()
    operation = runner.begin(CANCEL, {}, {}, act=act_of("reader"))

    with before(BATCH_ENDS, site, User.objects.get(username="reader").user_permissions.clear):
        finished(operation, site)

    assert (operation.status, operation.changed, Message.objects.count()) == ("failed", 3, 2)
    assert operation.error == "“reader” may not do this any more."
    said_last = LogEntry.objects.get(user__username="reader").change_message
    assert said_last.startswith("failed: 3 changed, 3 of 5 tried.")


@pytest.mark.parametrize("change", [{"is_active": False}, {"username": "somebody else"}])
def test_it_does_nothing_for_a_user_who_is_gone(change: dict[str, Any], site: str, make: Make) -> None:
    make.message(DEAD)
    operation = begin()
    User.objects.update(**change)

    finished(operation, site)

    assert (operation.status, operation.tried) == ("failed", 0)


def test_who_goes_on_with_it_answers_for_it(site: str, login_with: Callable[..., Client], make: Make) -> None:
    make.message(DEAD)
    operation = begin()
    runner.stop(operation)
    User.objects.filter(username="operator").delete()
    client = login_with("view_operation", "redrive_message")

    run_action(client, "operation", "go_on", [operation])
    finished(operation, site)

    assert (operation.status, operation.changed, operation.user_name) == ("done", 1, "reader")
    assert "done: 1 changed, 1 of 1 tried" in LogEntry.objects.latest("pk").change_message


def test_the_log_says_what_it_came_to(site: str, make: Make) -> None:
    for state in (DEAD, DEAD, DEAD, DEAD, CLAIMED):
        make.message(state)

    finished(begin(CANCEL), site)

    assert LogEntry.objects.get().change_message == (
        'done: 4 changed, 5 of 5 tried. {"filters": {}, "answers": {}}'
    )


def test_a_batch_and_its_count_are_one(site: str, make: Make) -> None:
    """If a process ends between the two, both are rolled back, and neither is done twice."""
    for _ in range(5):
        make.message()
    operation = begin(CANCEL)

    with before(BATCH_ENDS, site, fail_with(ZeroDivisionError("gone"))), pytest.raises(ZeroDivisionError):
        runner.run(operation.pk, using=site)
    operation.refresh_from_db()
    assert (operation.status, operation.error) == ("failed", "ZeroDivisionError: gone")
    assert (operation.tried, operation.changed, Message.objects.count()) == (0, 0, 5)

    runner.go_on(operation, "operator")
    finished(operation, site)
    assert (operation.status, operation.tried, operation.changed) == ("done", 5, 5)


def test_a_batch_that_a_dead_lock_undid_is_tried_again(site: str, make: Make) -> None:
    for _ in range(5):
        make.message()
    operation = begin(CANCEL)
    undo = fail_with(OperationalError("a dead-lock"))

    with before(BATCH_ENDS, site, undo, undo):
        finished(operation, site)

    assert (operation.status, operation.tried, operation.changed) == ("done", 5, 5)


def test_a_process_that_stood_still_does_no_batch_of_an_operation_that_was_taken_over(
    site: str, make: Make
) -> None:
    for _ in range(7):
        make.message()
    operation = begin(CANCEL)

    def go_on() -> None:
        stall(operation)
        runner.run(operation.pk, using=site)

    with before(BATCH_BEGINS, site, go_on):
        finished(operation, site)

    assert (operation.status, operation.tried, operation.changed) == ("done", 7, 7)
    assert LogEntry.objects.count() == 1


class Narrowed(MessageAdmin):
    """A site's own page, of one type only."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        return super().get_queryset(request).filter(type="mine")


class MineFilter(admin.SimpleListFilter):
    """A site's own filter, which is on by itself."""

    title = "mine"
    parameter_name = "mine"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "yes")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> QuerySet[Message]:
        return queryset.filter(type="mine")


class Filtered(MessageAdmin):
    """A site's own page with that filter."""

    list_filter = [*MessageAdmin.list_filter, MineFilter]


narrowed, filtered = admin.AdminSite("narrowed"), admin.AdminSite("filtered")
for own_site, own_page in ((narrowed, Narrowed), (filtered, Filtered)):
    register(own_site)
    own_site.unregister(Message)
    own_site.register(Message, own_page)
urlpatterns = [path("narrowed/", narrowed.urls), path("filtered/", filtered.urls)]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["narrowed", "filtered"])
def test_all_that_match_are_never_more_than_a_sites_own_list_shows(
    name: str, browse: Client, make: Make, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ROOT_URLCONF = __name__
    rows = [make.message(type="mine" if number else "theirs") for number in range(5)]
    data = {"action": "cancel", "_selected_action": [rows[1].pk], "select_across": "1", "confirmed": "yes"}
    address = f"/{name}/django_mq/message/"

    make.attempt(message_id=rows[0].message_id)

    for filtered in ("", "?state=1", "?queue=orders", "?error=ValueError", "?state=letters"):
        shown = browse.get(f"{address}{filtered}").context["cl"].result_list
        assert rows[0].pk not in {row.pk for row in shown}
    refused = browse.post(address, data, follow=True)
    assert "Nothing was done" in said(refused)[0]
    assert Message.objects.count() == 5

    monkeypatch.setattr("django_mq.admin.messages.selection.LIMIT", 4)
    browse.post(address, data)
    assert not Operation.objects.exists()
    assert Message.objects.get() == rows[0]


@pytest.mark.django_db
def test_what_a_sites_own_list_hides_is_not_copied(browse: Client, make: Make, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    hidden = make.message(body=b'{"a": 1}', headers={"tenant": "theirs"})
    shown = make.message(body=b'{"a": 2}', type="mine")

    pages = [browse.get("/narrowed/django_mq/message/add/", {"copy": row.pk}) for row in (hidden, shown)]

    assert [page.context["form"].initial.get("type") for page in pages] == [None, "mine"]
    saved = browse.post(
        "/narrowed/django_mq/message/",
        {"action": "download_json", "_selected_action": [shown.pk], "select_across": "1"},
    )
    assert [json.loads(line)["type"] for line in saved.getvalue().splitlines()] == ["mine"]


@pytest.mark.django_db
def test_steering_takes_the_permission_of_the_action(login_with: Callable[..., Client], make: Make) -> None:
    operation = begin(CANCEL)
    client = login_with("view_operation", "redrive_message")

    response = run_action(client, "operation", "stop", [operation])

    operation.refresh_from_db()
    assert operation.status == "running"
    assert "You may not" in said(response)[0]
    assert client.get(page_of(operation)).context["buttons"] == []


@pytest.mark.django_db
def test_beginning_takes_the_permission_of_the_action(login_with: Callable[..., Client], make: Make) -> None:
    rows = [make.message(DEAD) for _ in range(4)]
    client = login_with("view_message", "move_message")

    client.post(list_of("message"), {"action": "redrive", "_selected_action": [rows[0].pk], "select_across": "1"})

    assert not Operation.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_runs_in_a_thread_of_its_own_after_the_commit(make: Make) -> None:
    for _ in range(7):
        make.message(DEAD)

    operation = begin()
    for thread in threading.enumerate():
        if thread.name == f"django_mq-operation-{operation.pk}":
            thread.join(60)

    operation.refresh_from_db()
    assert (operation.status, operation.changed) == ("done", 7)
