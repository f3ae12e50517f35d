"""What an operator does to messages, and how honestly it is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.utils import timezone

from django_mq.models import History, Message
from django_mq.notifications.base import Wake, queue_topic
from django_mq.notifications.registry import notifier
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite", once="postgresql")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


def test_a_message_is_released_from_its_worker(site: str, browse: Client, make: Make) -> None:
    message = make.message(CLAIMED, session=make.session(), claim=1, claimed_at=timezone.now())

    asked = run_action(browse, "message", "release", [message])
    response = run_action(browse, "message", "release", [message], yes="yes")

    message.refresh_from_db(fields=["state", "session"])
    assert "may be handled twice" in asked.content.decode()
    assert (message.state, message.session) == (READY, None)
    assert said(response) == ["Released: 1 of 1 message."]


def test_messages_are_moved_and_those_that_workers_hold_are_named(site: str, browse: Client, make: Make) -> None:
    chosen = [make.message(state) for state in (READY, READY, DEAD, CLAIMED, CLAIMED)]
    make.queue("elsewhere")

    asked = run_action(browse, "message", "move", chosen)
    response = run_action(browse, "message", "move", chosen, target="elsewhere")

    assert asked.context["preview"].rows == [
        ["ready", "2", ""],
        ["claimed", "2", "what a worker has begun will be left alone"],
        ["dead letter", "1", ""],
    ]
    assert said(response) == [
        (
            "Moved to elsewhere: 3 of 5 messages. "
            "Left alone: 2 are held by workers, and what has begun is not interrupted."
        )
    ]
    assert Message.objects.filter(queue__name="elsewhere").count() == 3


def test_moving_to_no_queue_or_a_closed_one_is_asked_again(site: str, browse: Client, make: Make) -> None:
    message = make.message()
    make.queue("closed", closed=True)

    for target in ("", "closed", "unknown"):
        response = run_action(browse, "message", "move", [message], target=target)
        assert response.context["form"].errors


def test_messages_are_moved_in_their_order(site: str, browse: Client, make: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr("django_mq.delivery.operator.actions.CHUNK", 1)
    last, first, second = make.message(level=1), make.message(level=9), make.message(level=9)
    make.queue("elsewhere", kind="fifo")

    run_action(browse, "message", "move", [last, first, second], target="elsewhere")

    moved = Message.objects.order_by("pk").values_list("message_id", flat=True)
    assert list(moved) == [first.message_id, second.message_id, last.message_id]


def test_a_message_is_cancelled_after_its_count_is_confirmed(site: str, browse: Client, make: Make) -> None:
    chosen = [make.message(READY), make.message(SCHEDULED)]

    asked = run_action(browse, "message", "cancel", chosen)
    before = Message.objects.count()
    run_action(browse, "message", "cancel", chosen, yes="yes")

    assert asked.context["preview"].rows == [["scheduled", "1", ""], ["ready", "1", ""]]
    assert (before, Message.objects.count()) == (2, 0)
    assert History.objects.filter(outcome=History.Outcome.CANCELLED).count() == 2


def test_a_scheduled_message_is_delivered_now(site: str, browse: Client, make: Make) -> None:
    message = make.message(SCHEDULED, deliver_at=timezone.now() + timedelta(days=1))
    ready = make.message(READY)

    response = run_action(browse, "message", "deliver_now", [message, ready])

    message.refresh_from_db(fields=["state"])
    assert message.state == READY
    assert said(response) == ["Made ready now: 1 of 2 messages. Left alone: 1 is ready."]


def test_the_priority_of_a_message_is_changed(site: str, browse: Client, make: Make) -> None:
    message, same = make.message(), make.message(priority=9)

    asked_again = run_action(browse, "message", "prioritise", [message], priority=10)
    response = run_action(browse, "message", "prioritise", [message, same], priority=9)

    assert asked_again.context["form"].errors
    changed = Message.objects.only("priority", "level").get(message_id=message.message_id)
    assert (changed.priority, changed.level) == (9, 9)
    assert said(response) == [
        "Given priority 9: 1 of 2 messages. Left alone: 1 was so before, or changed meanwhile."
    ]


def test_a_dead_message_is_redriven(site: str, browse: Client, make: Make) -> None:
    message = make.message(DEAD, attempts=3, dead_reason="ValueError", dead_at=timezone.now())

    run_action(browse, "message", "redrive", [message])

    message.refresh_from_db(fields=["state", "attempts", "dead_reason"])
    assert (message.state, message.attempts, message.dead_reason) == (READY, 0, "")


def test_a_redrive_into_a_paused_or_full_queue_is_asked_about_and_another_is_not(
    site: str, browse: Client, make: Make
) -> None:
    letters = make.queue("letters")
    make.queue("paused", paused=True)
    make.message(READY, make.queue("full", max_messages=1))
    rows = [
        make.message(READY, letters, dead_reason="boom", headers={"x-origin-queue": name})
        for name in ("paused", "full", "no queue")
    ]

    asked = run_action(browse, "message", "redrive", rows)

    assert "“paused” is paused: messages that return to it wait until it resumes." in asked.content.decode()
    assert "“full” is full: messages that do not fit stay where they are." in asked.content.decode()
    assert set(Message.objects.filter(pk__in=[row.pk for row in rows]).values_list("queue", flat=True)) == {
        letters.pk
    }
    done = run_action(browse, "message", "redrive", rows, yes="yes")
    assert said(done)[0].startswith("Redriven: 1 of 3 messages.")


def test_a_letter_in_a_dead_letter_queue_is_redriven_where_it_came_from(
    site: str, browse: Client, make: Make
) -> None:
    letters, _ = make.queue("letters"), make.queue("orders")
    letter = make.message(READY, queue=letters, dead_reason="boom", headers={"x-origin-queue": "orders"})
    lost = make.message(READY, queue=letters, dead_reason="boom", headers={"x-origin-queue": "no queue"})
    ordinary = make.message(READY, queue=letters)
    offers = ["redrive" in dict(browse.get(page_of(row)).context["buttons"]) for row in (letter, ordinary)]

    response = run_action(browse, "message", "redrive", [letter, lost, ordinary])

    assert offers == [True, False]
    assert said(response) == ["Redriven: 1 of 3 messages. Left alone: 2 were so before, or changed meanwhile."]
    found = dict(Message.objects.values_list("message_id", "queue__name"))
    assert found == {letter.message_id: "orders", lost.message_id: "letters", ordinary.message_id: "letters"}


def test_messages_that_left_meanwhile_are_counted_as_such(site: str, browse: Client, make: Make) -> None:
    gone, dead = make.message(DEAD), make.message(DEAD)
    rows = [dead, Message(pk=gone.pk)]
    gone.delete()

    response = run_action(browse, "message", "redrive", rows)

    assert said(response) == ["Redriven: 1 of 2 messages. Left alone: 1 is no longer there."]


@pytest.mark.django_db
def test_the_confirmation_keeps_the_choice_of_all(browse: Client, make: Make) -> None:
    message = make.message()

    data = {"action": "cancel", "_selected_action": [message.pk], "select_across": "1"}
    page = browse.post(list_of("message"), data).content.decode()

    assert '<input type="hidden" name="select_across" value="1">' in page
    assert f'<input type="hidden" name="_selected_action" value="{message.pk}">' in page


def test_every_act_on_messages_is_logged_once(site: str, browse: Client, make: Make) -> None:
    first, second = make.message(DEAD), make.message(DEAD)

    run_action(browse, "message", "redrive", [first])
    run_action(browse, "message", "cancel", [first, second], yes="yes")

    alone, together = LogEntry.objects.order_by("pk")
    assert (alone.object_id, alone.object_repr) == (str(first.pk), str(first.message_id))
    assert alone.change_message.startswith("Redriven: 1 of 1 message.")
    assert (together.object_id, together.object_repr) == (None, "2 messages")
    assert str(second.message_id) in together.change_message


@pytest.mark.django_db(transaction=True)
def test_a_locked_database_is_told_and_not_raised(browse: Client, make: Make) -> None:
    message = make.message(DEAD)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
    path = connection.settings_dict["NAME"]

    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        response = run_action(browse, "message", "redrive", [message])

    assert said(response) == ["The database cannot be used now: database is locked"]
    connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "state", "answers"),
    [
        ("release", CLAIMED, {"yes": "yes"}),
        ("move", READY, {"target": "orders"}),
        ("deliver_now", SCHEDULED, {"yes": "yes"}),
        ("prioritise", READY, {"priority": 9}),
        ("redrive", DEAD, {"yes": "yes"}),
    ],
)
def test_consumers_are_woken_when_there_is_something_for_them(
    name: str, state: Message.Status, answers: dict[str, Any], browse: Client, make: Make
) -> None:
    make.queue("orders")
    message = make.message(state, queue=make.queue("elsewhere") if name == "move" else None)

    with closing(Wake()) as wake, closing(notifier().listen(wake)) as listener:
        listener.subscribe([queue_topic("orders")])
        run_action(browse, "message", name, [message], **answers)

        assert wake.take_topics() == {queue_topic("orders")}


@pytest.mark.django_db
def test_the_page_of_a_message_offers_what_fits_its_state(browse: Client, make: Make) -> None:
    offers = {state: offered(browse, make.message(state)) for state in Message.Status}

    assert offers == {
        SCHEDULED: ["deliver_now", "reschedule", "prioritise", "move", "cancel"],
        READY: ["reschedule", "prioritise", "move", "cancel"],
        CLAIMED: ["release", "stop"],
        DEAD: ["redrive", "acknowledge", "move", "cancel"],
        PARKED: ["deliver_now", "reschedule", "prioritise", "move", "cancel"],
    }


@pytest.mark.django_db
def test_a_dead_letter_that_is_ready_in_another_queue_is_redriven_or_acknowledged(
    browse: Client, make: Make
) -> None:
    letter = make.message(READY, queue=make.queue("letters"), dead_reason="no such customer")

    actions = ["redrive", "acknowledge", "reschedule", "prioritise", "move", "cancel"]
    assert offered(browse, letter) == actions


def offered(browse: Client, message: Message) -> list[str]:
    buttons = browse.get(page_of(message)).context["buttons"]
    return [name for name, _ in buttons if name != "download_json"]


def test_messages_are_rescheduled_to_a_time_in_the_sites_zone(site: str, browse: Client, make: Make) -> None:
    chosen = [make.message(READY), make.message(SCHEDULED, deliver_at=timezone.now()), make.message(DEAD)]

    asked = run_action(browse, "message", "reschedule", chosen)
    response = run_action(browse, "message", "reschedule", chosen, deliver_at="2131-05-31T18:00")

    assert f"In the time zone {timezone.get_current_timezone_name()}." in asked.content.decode()
    assert said(response)[0].endswith("2 of 3 messages. Left alone: 1 is dead.")
    found = Message.objects.filter(state=SCHEDULED).values_list("deliver_at", flat=True)
    assert set(found) == {datetime(2131, 5, 31, 18, tzinfo=timezone.get_current_timezone())}


@pytest.mark.parametrize("given", ["", "tomorrow", "1999-01-01T00:00", "9999-12-31T23:59"])
def test_a_time_that_is_over_or_none_is_asked_again(site: str, browse: Client, make: Make, given: str) -> None:
    message = make.message(READY)

    response = run_action(browse, "message", "reschedule", [message], deliver_at=given)

    message.refresh_from_db(fields=["state"])
    assert message.state == READY
    assert response.context["form"].errors
