"""What an operator does to queues."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import call_command

from django_mq.models import Binding, History, Message, Queue
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite", once="postgresql")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


def test_a_queue_is_paused_with_its_reason(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()

    asked = run_action(browse, "queue", "pause", [queue])
    response = run_action(browse, "queue", "pause", [queue], reason="stock take", minutes="")

    queue.refresh_from_db()
    assert "Reason" in asked.content.decode()
    assert (queue.paused, queue.paused_reason, queue.paused_until) == (True, "stock take", None)
    assert said(response) == ["“orders” is paused: stock take"]


def test_a_pause_without_a_reason_is_asked_again(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()

    response = run_action(browse, "queue", "pause", [queue], reason="")

    queue.refresh_from_db()
    assert "This field is required" in response.content.decode()
    assert not queue.paused


def test_a_pause_may_end_by_itself(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()

    run_action(browse, "queue", "pause", [queue], reason="stock take", minutes="30")

    queue.refresh_from_db()
    assert queue.paused_until is not None


def test_a_paused_queue_is_resumed(site: str, browse: Client, make: Make) -> None:
    queue = make.queue(paused=True, paused_reason="stock take")

    run_action(browse, "queue", "resume", [queue])

    queue.refresh_from_db()
    assert (queue.paused, queue.paused_reason) == (False, "")


def test_a_purge_shows_the_count_and_removes_what_nobody_holds(site: str, browse: Client, make: Make) -> None:
    messages = [make.message(state) for state in (READY, READY, SCHEDULED, DEAD, CLAIMED)]
    queue = messages[0].queue

    asked = run_action(browse, "queue", "purge", [queue])
    response = run_action(browse, "queue", "purge", [queue], typed="purge")

    assert asked.context["preview"].rows == [["orders", "2", "1", "1", "1"]]
    assert said(response) == ["“orders” is purged: 4 messages."]
    assert [message.state for message in Message.objects.all()] == [CLAIMED]
    assert History.objects.filter(outcome=History.Outcome.PURGED).count() == 4


def test_an_empty_queue_is_deleted_with_its_bindings(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()
    Binding.objects.create(exchange="shop", exchange_type="fanout", queue=queue)

    asked = browse.get(page_of(queue, "delete"))
    browse.post(page_of(queue, "delete"), {"confirmed": "yes"})

    assert asked.context["preview"].rows == [["orders", "0", "0", "0", "0"]]
    assert not Queue.objects.exists()
    assert not Binding.objects.exists()


def test_a_queue_that_holds_messages_is_deleted_only_with_them(site: str, browse: Client, make: Make) -> None:
    queue = make.message().queue

    refused = run_action(browse, "queue", "delete_selected", [queue], yes="yes")
    done = run_action(browse, "queue", "delete_selected", [queue], force="on")

    [sentence] = said(refused)
    assert sentence.startswith("'orders' still holds messages. With force")
    assert said(done) == ["“orders” is deleted, and 1 message with it."]
    assert not Queue.objects.exists()


def test_a_queue_whose_messages_are_held_is_not_deleted(site: str, browse: Client, make: Make) -> None:
    queue = make.message(CLAIMED).queue

    response = run_action(browse, "queue", "delete_selected", [queue], force="on")

    assert said(response) == [
        "'orders' still holds messages that workers have claimed. Wait until they have ended."
    ]
    assert Queue.objects.exists()


def test_one_queue_that_refuses_does_not_stop_the_others(site: str, browse: Client, make: Make) -> None:
    full, empty = make.message().queue, make.queue("zero")

    run_action(browse, "queue", "delete_selected", [full, empty], yes="yes")

    assert [queue.name for queue in Queue.objects.all()] == ["orders"]


def test_a_purge_that_is_not_typed_removes_nothing(site: str, browse: Client, make: Make) -> None:
    queue = make.message().queue

    refused = run_action(browse, "queue", "purge", [queue], typed="yes")

    assert "type “purge”" in refused.content.decode()
    assert Message.objects.count() == 1


def test_dead_letters_are_redriven_to_where_they_came_from(site: str, browse: Client, make: Make) -> None:
    taker = make.queue("graveyard")
    make.queue("bills", dead_letter_queue=taker)
    make.message(READY, taker, dead_reason="boom", headers={"x-origin-queue": "bills"})
    make.message(READY, taker, dead_reason="boom", headers={"x-origin-queue": "gone"})
    make.message(DEAD, taker)
    make.message(READY, taker)

    offered = browse.get(page_of(taker)).context["buttons"]
    response = run_action(browse, "queue", "redrive", [taker], yes="yes")

    assert "redrive" in dict(offered)
    assert said(response) == [
        "“graveyard”: 2 dead letters redriven. 1 stayed: its queue is gone or full or has it already."
    ]
    assert Message.objects.filter(queue__name="bills", state=READY).count() == 1
    assert not Message.objects.filter(state=DEAD).exists()


@pytest.mark.django_db
def test_every_act_on_a_queue_is_logged(browse: Client, make: Make) -> None:
    queue = make.queue()

    run_action(browse, "queue", "pause", [queue], reason="stock take")
    run_action(browse, "queue", "resume", [queue])
    run_action(browse, "queue", "purge", [queue], typed="purge")
    run_action(browse, "queue", "delete_selected", [queue], yes="yes")

    logged = [(entry.object_repr, entry.get_change_message()) for entry in LogEntry.objects.order_by("pk")]
    assert logged == [
        ("orders", "“orders” is paused: stock take"),
        ("orders", "“orders” delivers again."),
        ("orders", "“orders” is purged: 0 messages."),
        ("orders", ""),
    ]


@pytest.mark.django_db
def test_deleting_messages_with_their_queue_takes_the_permission_to_purge(
    login_with: Callable[..., Client], make: Make
) -> None:
    queue = make.message().queue
    client = login_with("view_queue", "delete_queue")

    run_action(client, "queue", "delete_selected", [queue], force="on")

    assert Queue.objects.exists()


@pytest.mark.django_db
def test_the_page_of_a_queue_offers_what_can_be_done_now(browse: Client, make: Make) -> None:
    running, paused = make.queue(), make.queue("paused", paused=True)

    offers = [browse.get(page_of(queue)).context["buttons"] for queue in (running, paused)]

    assert [[name for name, _ in offer] for offer in offers] == [["pause", "purge"], ["resume", "purge"]]


@pytest.mark.django_db
def test_the_confirmation_escapes_the_names(browse: Client, make: Make) -> None:
    queue = make.queue("<script>alert(1)</script>")

    pages = [
        run_action(browse, "queue", "purge", [queue]),
        browse.get(list_of("queue")),
        browse.get(page_of(queue)),
    ]

    for page in pages:
        assert "<script>alert" not in page.content.decode()


def test_a_redrive_into_a_paused_or_full_queue_says_so_before(site: str, browse: Client, make: Make) -> None:
    taker = make.queue("graveyard")
    paused = make.queue("paused", dead_letter_queue=taker, paused=True)
    make.message(READY, make.queue("full", dead_letter_queue=taker, max_messages=1))
    make.message(READY, taker, headers={"x-origin-queue": paused.name})

    asked = run_action(browse, "queue", "redrive", [taker]).content.decode()

    assert "“paused” is paused: messages that return to it wait until it resumes." in asked
    assert "“full” is full: messages that do not fit stay where they are." in asked
    assert "is paused" not in run_action(browse, "queue", "purge", [taker]).content.decode()
    errors = io.StringIO()
    call_command("mq_redrive", "graveyard", "--dry-run", "--database", site, stdout=io.StringIO(), stderr=errors)
    assert "Warning: queue 'paused', to which messages return, is paused." in errors.getvalue()
    assert "Warning: queue 'full', to which messages return, is full." in errors.getvalue()
