"""An act on all that match a filter: in the background, in batches, with progress that survives its process."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.utils import timezone

from django_mq.admin import background
from django_mq.admin.message_acts import CANCEL, MOVE, PRIORITISE, RESCHEDULE, RETRY
from django_mq.models import Message, Operation
from tests.admin.conftest import act, list_of, page_of, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD = Message.Status
LATER = datetime(2131, 5, 31, 18, tzinfo=UTC)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page waits for two messages, a batch has three."""
    monkeypatch.setattr("django_mq.admin.selection.LIMIT", 2)
    monkeypatch.setattr(background, "BATCH", 3)


def begin(act_: Any = RETRY, filters: dict[str, str] | None = None, **answers: Any) -> Operation:
    """Write an operation down. Its thread waits for a commit that these tests never make."""
    return background.begin(act_, filters or {}, answers, user_name="operator")


def finished(operation: Operation, site: str) -> Operation:
    """Run it to its end, here."""
    background.run(operation.pk, using=site)
    operation.refresh_from_db()
    return operation


def test_all_that_match_are_tried_once_batch_by_batch(site: str, make: Make) -> None:
    for number in range(7):
        make.message(DEAD, type="a" if number < 5 else "b")
    make.message(CLAIMED, type="a")

    operation = finished(begin(CANCEL, {"type": "a"}), site)

    assert (operation.status, operation.expected, operation.tried, operation.changed) == ("done", 6, 6, 5)
    assert sorted(Message.objects.values_list("type", "state")) == [("a", CLAIMED), ("b", DEAD), ("b", DEAD)]


def test_a_retry_of_all_looks_at_dead_letters_only(site: str, make: Make) -> None:
    make.message(DEAD)
    make.message(READY, make.queue("letters"), headers={"x-origin-queue": "orders"})
    for state in (READY, SCHEDULED, CLAIMED):
        make.message(state)

    operation = finished(begin(), site)

    assert (operation.expected, operation.tried, operation.changed) == (2, 2, 2)


def test_a_retry_of_all_on_a_page_counts_dead_letters_only(site: str, browse: Client, make: Make) -> None:
    for state in (DEAD, READY, SCHEDULED, CLAIMED):
        make.message(state)

    response = browse.post(
        list_of("message"), {"action": "retry", "select_across": "1", "_selected_action": ["1"]}, follow=True
    )

    assert said(response) == ["Retried: 1 of 1 message."]


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

    finished(begin(MOVE, {"queue": "here"}, target=target), site)
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
    operation = begin(MOVE, {"queue": "here"}, target=target)
    target.delete()

    operation = finished(operation, site)

    assert (operation.status, operation.tried) == ("failed", 0)
    assert "gone" in operation.error


def test_selecting_all_of_many_begins_an_operation(site: str, browse: Client, make: Make) -> None:
    dead = [make.message(DEAD, type="a") for _ in range(4)]
    make.message(DEAD, type="b")
    data = {"action": "retry", "_selected_action": [dead[0].pk], "select_across": "1"}

    response = browse.post(f"{list_of('message')}?type=a&p=1", data, follow=True)

    operation = Operation.objects.get()
    assert (operation.act, operation.filters, operation.expected) == ("retry", {"type": "a"}, 4)
    assert operation.user_name == "operator"
    assert said(response) == ["Retry: begun for all that match, some 4 messages."]
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
    monkeypatch.setattr("django_mq.admin.depth.LIMIT", 3)
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

    stopped = act(browse, "operation", "stop", [operation])
    again = act(browse, "operation", "stop", [operation])
    operation.refresh_from_db()
    assert operation.status == "stopped"
    act(browse, "operation", "go_on", [operation])
    operation.refresh_from_db()

    assert "It stops after the batch" in said(stopped)[0]
    assert "nothing to do" in said(again)[0]
    assert operation.status == "running"


def test_an_operation_whose_process_is_gone_is_shown_as_that(site: str, browse: Client, make: Make) -> None:
    operation = begin()
    running = browse.get(page_of(operation)).content.decode()
    Operation.objects.update(beat_at=timezone.now() - timedelta(minutes=5))

    stalled = browse.get(page_of(operation)).content.decode()

    assert 'http-equiv="refresh"' in running
    assert 'http-equiv="refresh"' not in stalled
    assert "its process is gone" in stalled
    act(browse, "operation", "go_on", [operation])
    operation.refresh_from_db()
    assert not background.is_stalled(operation)


@pytest.mark.django_db
def test_steering_takes_the_permission_of_the_act(login_with: Callable[..., Client], make: Make) -> None:
    operation = begin(CANCEL)
    client = login_with("view_operation", "retry_message")

    response = act(client, "operation", "stop", [operation])

    operation.refresh_from_db()
    assert operation.status == "running"
    assert "You may not" in said(response)[0]
    assert client.get(page_of(operation)).context["acts"] == []


@pytest.mark.django_db
def test_beginning_takes_the_permission_of_the_act(login_with: Callable[..., Client], make: Make) -> None:
    rows = [make.message(DEAD) for _ in range(4)]
    client = login_with("view_message", "move_message")

    client.post(list_of("message"), {"action": "retry", "_selected_action": [rows[0].pk], "select_across": "1"})

    assert not Operation.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_runs_in_a_thread_of_its_own_after_the_commit(make: Make) -> None:
    User.objects.create_superuser("operator")
    for _ in range(7):
        make.message(DEAD)

    operation = begin()
    for thread in threading.enumerate():
        if thread.name == f"django_mq-operation-{operation.pk}":
            thread.join(60)

    operation.refresh_from_db()
    assert (operation.status, operation.changed) == ("done", 7)
