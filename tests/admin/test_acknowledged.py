"""Acknowledged dead letters stop being red, and snoozed alerts are not shown for a time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from django_mq.delivery.operator.actions import acknowledge, rows_of
from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.diagnosis.state.overview import overview
from django_mq.formats import COUNT_LIMIT
from django_mq.models import AcknowledgedLetter, Message, SnoozedAlert
from tests.admin.conftest import list_of, page_of, run_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

READY, DEAD = Message.Status.READY, Message.Status.DEAD
OVERVIEW = "admin:django_mq_queue_overview"


def figures(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get(reverse(f"{OVERVIEW}_json")).content)
    return found


def kinds(client: Client) -> list[str]:
    return [alert["kind"] for alert in figures(client)["alerts"]]


def test_an_acknowledged_dead_letter_is_no_alert_until_it_dies_again(
    site: str, browse: Client, make: Make
) -> None:
    known = make.message(DEAD, dead_at=timezone.now())
    assert kinds(browse) == ["dead"]

    run_action(browse, "message", "acknowledge", [known], reason="the shop <knows>")

    assert kinds(browse) == []
    assert Probe(Demands(dead=0))._ask(site).well
    assert "the shop &lt;knows&gt;" in browse.get(page_of(known)).content.decode()
    [state] = overview(using=site)
    assert (state.dead_letters, state.acknowledged, state.new_dead_letters) == (1, 1, 0)
    make.message(DEAD, dead_at=timezone.now())
    assert overview(using=site)[0].new_dead_letters == 1
    Message.objects.filter(pk=known.pk).update(dead_at=timezone.now() + timedelta(seconds=1))
    assert overview(using=site)[0].new_dead_letters == 2


def test_dead_letters_of_other_queues_are_acknowledged_and_other_messages_are_left(site: str, make: Make) -> None:
    letters = make.queue("letters")
    make.queue("orders", dead_letter_queue=letters)
    letter = make.message(READY, letters, dead_reason="boom")
    make.message(READY, letters)

    done = acknowledge(rows_of(Message.objects.all()), "known", using=site)

    assert done == [letter.pk]
    [state] = [state for state in overview(using=site) if state.name == "letters"]
    assert (state.dead_letters, state.new_dead_letters) == (1, 0)


@pytest.mark.django_db
def test_where_counting_has_stopped_there_are_new_ones(make: Make) -> None:
    make.message(DEAD)
    [state] = overview(using="default")
    assert replace(state, dead=COUNT_LIMIT, acknowledged=COUNT_LIMIT).new_dead_letters > 0


@pytest.mark.django_db
def test_a_reason_is_needed(browse: Client, make: Make) -> None:
    page = run_action(browse, "message", "acknowledge", [make.message(DEAD)], reason=" ")

    assert page.context["form"].errors
    assert not AcknowledgedLetter.objects.exists()


@pytest.mark.django_db
def test_a_snoozed_alert_is_not_shown_until_its_time(browse: Client, make: Make) -> None:
    make.message(DEAD)
    page = browse.get(reverse(OVERVIEW)).content.decode()
    form = f"{list_of('snoozedalert')}add/?kind=dead&amp;about=orders"
    assert form in page

    browse.post(
        f"{list_of('snoozedalert')}add/", {"kind": "dead", "about": "orders", "hours": "2", "reason": "<b>"}
    )

    snoozed = SnoozedAlert.objects.get()
    assert snoozed.user_name == "operator"
    assert timedelta(hours=1) < snoozed.until - timezone.now() <= timedelta(hours=2)
    assert kinds(browse) == []
    assert [one["reason"] for one in figures(browse)["snoozed"]] == ["<b>"]
    page = browse.get(reverse(OVERVIEW)).content.decode()
    assert "1 snoozed" in page
    assert "&lt;b&gt;" in page
    SnoozedAlert.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert kinds(browse) == ["dead"]


@pytest.mark.django_db
@pytest.mark.parametrize("hours", ["0", "-1", "745", "nan", "x"])
def test_a_time_that_makes_no_sense_is_refused(browse: Client, hours: str) -> None:
    given = {"kind": "dead", "about": "orders", "hours": hours, "reason": "known"}

    browse.post(f"{list_of('snoozedalert')}add/", given)

    assert not SnoozedAlert.objects.exists()


@pytest.mark.django_db
def test_a_reader_of_queues_is_not_offered_to_snooze(login_with: Callable[..., Client], make: Make) -> None:
    make.message(DEAD)
    client = login_with("view_queue")

    assert "snoozedalert" not in client.get(reverse(OVERVIEW)).content.decode()
    assert client.get(f"{list_of('snoozedalert')}add/").status_code == 403


@pytest.mark.django_db
def test_the_commands_do_the_same(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    message = make.message(DEAD)
    call_command("mq_acknowledge", str(message.message_id), "--why", "known")
    call_command("mq_snooze", "dead", "orders", "--why", "known")
    snoozed = SnoozedAlert.objects.get()
    capsys.readouterr()
    call_command("mq_snooze", "--json")
    [shown] = json.loads(capsys.readouterr().out)
    call_command("mq_snooze", "--end", str(snoozed.pk))

    assert AcknowledgedLetter.objects.get().row_id == message.pk
    assert (shown["kind"], shown["about"], shown["reason"]) == ("dead", "orders", "known")
    assert not SnoozedAlert.objects.exists()
