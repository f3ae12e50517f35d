"""Events of durable handlers in the admin and by ``mq_events``."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from django_mq.acts.models import Act
from django_mq.api import consumer, emit, publish
from django_mq.delivery.consumer.handlers import forget
from django_mq.delivery.queues import declare
from django_mq.durable.models import DurableEvent
from django_mq.models import Message
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

    from django_mq.testing import QueueTester

pytestmark = pytest.mark.django_db


@pytest.fixture
def got(mq: QueueTester) -> Iterator[list[Any]]:
    """What the handlers of two messages have got, which wait for an event."""
    declare(shared_store("default"), "parcels")
    found: list[Any] = []

    @consumer("parcels", durable=True)
    def send(message: Any) -> None:
        found.append(message.wait_for("packed", message.body))

    for _ in range(2):
        publish("parcels", "7")
    mq.drain()
    yield found
    forget("parcels")


def test_the_list_and_the_page_say_what_waits(got: list[Any], browse: Client, login_with: Any) -> None:
    emit("packed", "8", {"box": "<12>"})
    row = DurableEvent.objects.get(key="7")

    rows = browse.get(list_of("durableevent")).content.decode()
    assert [words in rows for words in ("not emitted", "packed", "emitted")] == [True] * 3
    found = browse.get(list_of("durableevent"), {"q": "8"}).context["cl"].result_list
    assert [each.key for each in found] == ["8"]
    page = browse.get(page_of(row)).content.decode()
    for message in Message.objects.all():
        assert f"{message.message_id}</a>" in page
    assert "without end" in page
    assert 'value="emit"' in page
    assert 'value="delete"' not in page
    assert (
        "{&quot;box&quot;: &quot;&lt;12&gt;&quot;}"
        in browse.get(page_of(DurableEvent.objects.get(key="8"))).content.decode()
    )
    blind = login_with("view_durableevent").get(page_of(row)).content.decode()
    assert not [message for message in Message.objects.all() if f"{message.message_id}</a>" in blind]


def test_an_operator_emits_an_event_and_deletes_one(got: list[Any], browse: Client, mq: QueueTester) -> None:
    row = DurableEvent.objects.get()
    assert said(run_action(browse, "durableevent", "delete", [row], confirmed="yes")) == [
        "The event 'packed 7' is not deleted: messages wait for it, 2 of them. Emit it, or cancel them."
    ]
    assert (
        "is no JSON"
        in run_action(browse, "durableevent", "emit", [row], payload="{", confirmed="yes").content.decode()
    )
    assert said(run_action(browse, "durableevent", "emit", [row], payload='{"box": 12}', confirmed="yes")) == [
        "“packed 7” is emitted."
    ]
    assert mq.drain().outcomes == ["accepted", "accepted"]
    assert got == [{"box": 12}] * 2
    assert said(run_action(browse, "durableevent", "emit", [row], confirmed="yes")) == [
        "“packed 7” was emitted already."
    ]
    assert said(run_action(browse, "durableevent", "delete", [row], confirmed="yes")) == ["“packed 7” is deleted."]
    assert not DurableEvent.objects.exists()
    acts = list(Act.objects.order_by("id").values_list("name", "about", "command"))
    assert [act[:2] for act in acts] == [("emit", "packed 7"), ("delete", "packed 7")]
    assert "mq_events" in acts[0][2]


def run(*given: str, command: str = "mq_events") -> Any:
    out = StringIO()
    call_command(command, *given, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_command_does_the_same(got: list[Any], mq: QueueTester) -> None:
    assert [(each["event"], each["key"], each["waiting"]) for each in run()] == [("packed", "7", 2)]
    with pytest.raises(CommandError, match="messages wait for it, 2 of them"):
        run("delete", "packed", "7")
    assert run("emit", "packed", "7", "--payload", "5") == {"emit": "packed 7"}
    with pytest.raises(CommandError, match="was emitted already"):
        run("emit", "packed", "7")
    mq.drain()
    assert got == [5, 5]
    assert run("delete", "packed", "7") == {"delete": "packed 7"}
    with pytest.raises(CommandError, match="There is no event 'packed 7'"):
        run("delete", "packed", "7")
    with pytest.raises(CommandError, match="no JSON"):
        run("emit", "packed", "--payload", "{")
    assert run() == []
    assert list(Act.objects.values_list("name", flat=True).order_by("id")) == ["emit", "delete"]


@pytest.fixture
def woken(mq: QueueTester) -> Iterator[list[Any]]:
    """What handlers of two messages have got that sleep for a year; a third one waits for an event."""
    declare(shared_store("default"), "parcels")
    found: list[Any] = []

    @consumer("parcels", durable=True)
    def send(message: Any) -> None:
        if message.body == "waits":
            message.wait_for("packed")
        message.sleep(days=365)
        found.append(message.body)

    for body in ("one", "two", "waits"):
        publish("parcels", body)
    mq.drain()
    yield found
    forget("parcels")


def test_an_operator_wakes_handlers_that_sleep_and_no_others(
    woken: list[Any], browse: Client, login_with: Any, mq: QueueTester
) -> None:
    one, two, waits = Message.objects.order_by("pk")
    buttons = {row.pk: browse.get(page_of(row)).content.decode() for row in (one, waits)}
    assert [word in buttons[one.pk] for word in ('value="wake"', 'value="deliver_now"')] == [True, False]
    assert [word in buttons[waits.pk] for word in ('value="wake"', 'value="deliver_now"')] == [False, True]

    asked = run_action(browse, "message", "wake", [one, waits])
    assert "emit the event" in asked.content.decode()
    assert said(run_action(browse, "message", "wake", [one, waits], confirmed="yes")) == [
        "Woken: 1 of 2 messages. Left alone: 1 was so before, or changed meanwhile."
    ]
    assert mq.drain().outcomes == ["accepted"]
    assert woken == ["one"]
    blind = login_with("view_message").get(page_of(two)).content.decode()
    assert 'value="wake"' not in blind
    act = Act.objects.get()
    assert (act.name, act.command) == ("wake", f"python manage.py mq_wake {one.message_id} {waits.message_id}")

    with pytest.raises(SystemExit):
        run(str(waits.message_id), command="mq_wake")
    assert run("--queue", "parcels", "--dry-run", command="mq_wake")["would_be_woken"] == 1
    assert run("--queue", "parcels", command="mq_wake") == {"woken": 1, "left": 0, "missing": []}
    assert mq.drain().outcomes == ["accepted"]
    assert woken == ["one", "two"]
    assert Message.objects.get() == waits
