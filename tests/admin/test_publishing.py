"""A message published by hand, or copied with edits."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from django_mq.models import Message
from tests.admin.conftest import list_of, page_of, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
FORM = "/admin/django_mq/message/add/"


def filled(**changes: Any) -> dict[str, Any]:
    given = {"queue": "orders", "kind": "application/json", "body": '{"n": 1}', "headers": "", "priority": 4}
    return given | changes


def test_a_message_is_published_and_logged(site: str, browse: Client, make: Make) -> None:
    make.queue()

    response = browse.post(
        FORM, filled(headers='{"a": "b"}', type="sale", priority=7, delay=60, group_key="g"), follow=True
    )

    message = Message.objects.get()
    assert json.loads(bytes(message.body)) == {"n": 1}
    assert (message.state, message.priority, message.type, message.headers) == (SCHEDULED, 7, "sale", {"a": "b"})
    assert (message.group_key, message.correlation_id) == ("g", None)
    assert said(response) == [f"Published to “orders”: {message.message_id}"]
    assert LogEntry.objects.get().object_repr == str(message.message_id)


def test_a_new_message_has_no_headers_and_says_so(site: str, browse: Client) -> None:
    page = browse.get(FORM)

    [field] = re.findall(r'<textarea name="headers".*?>(.*?)</textarea>', page.content.decode(), re.DOTALL)
    assert field.strip() == "{}"


def test_text_is_published_as_it_stands(site: str, browse: Client, make: Make) -> None:
    make.queue()

    browse.post(FORM, filled(kind="text/plain", body=" <b>{oops "))

    assert bytes(Message.objects.get().body) == b" <b>{oops "


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"body": "{oops"}, "This is not JSON"),
        ({"body": ""}, "This is not JSON"),
        ({"headers": "[1]"}, "not a JSON object"),
        ({"priority": 10}, "less than or equal to 9"),
        ({"queue": "none"}, "valid choice"),
        ({"delay": -1}, "greater than or equal to 0"),
        ({"delay": 1e12}, "Nothing was published"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_published_is_said_and_kept(
    site: str, browse: Client, make: Make, wrong: dict[str, Any], why: str
) -> None:
    make.queue()

    page = browse.post(FORM, filled(**wrong))

    assert page.status_code == 200
    assert why in page.content.decode().replace("&#x27;", "'")
    assert not Message.objects.exists()


def test_a_closed_queue_is_not_offered(site: str, browse: Client, make: Make) -> None:
    make.queue(closed=True)

    assert browse.post(FORM, filled()).status_code == 200
    assert not Message.objects.exists()


def test_a_copy_shows_the_message_without_its_past(site: str, browse: Client, make: Make) -> None:
    message = make.message(
        DEAD,
        body=b'{"order": "</textarea><script>x"}',
        headers={"a": 1, "x-origin-queue": "bills"},
        priority=8,
        group_key="g",
    )
    assert f"{FORM}?copy={message.pk}" in browse.get(page_of(message)).content.decode()

    page = browse.get(FORM, {"copy": message.pk})

    initial = page.context["form"].initial
    assert json.loads(initial["body"]) == {"order": "</textarea><script>x"}
    assert (initial["queue"], initial["headers"], initial["priority"]) == ("orders", {"a": 1}, 8)
    assert initial["group_key"] == "g"
    assert "<script>x" not in page.content.decode()


TASK = {"lang": "py", "task": "shop.pay", "id": "abc", "timelimit": [None, None]}


def a_dead_letter(make: Make, **values: Any) -> Message:
    """Write a dead letter of the queue ``orders`` in the queue ``letters``."""
    letters = make.queue("letters")
    make.queue("orders", dead_letter_queue=letters)
    return make.message(
        READY, letters, **{"dead_reason": "boom", "headers": {"a": 1, "x-origin-queue": "orders"}} | values
    )


def test_a_copy_of_a_dead_letter_goes_where_it_came_from_and_replaces_it(
    site: str, browse: Client, make: Make
) -> None:
    letter = a_dead_letter(make)
    page = browse.get(FORM, {"copy": letter.pk})

    initial = page.context["form"].initial
    assert (initial["queue"], initial["headers"], initial["cancel_original"]) == ("orders", {"a": 1}, True)
    response = browse.post(f"{FORM}?copy={letter.pk}", filled(cancel_original="on"), follow=True)

    message = Message.objects.get()
    assert (message.queue.name, message.is_dead_letter) == ("orders", False)
    assert said(response) == [
        f"Published to “orders”: {message.message_id} The original is cancelled: {letter.message_id}"
    ]


def test_a_copy_without_a_tick_leaves_the_original(site: str, browse: Client, make: Make) -> None:
    letter = a_dead_letter(make)

    browse.post(f"{FORM}?copy={letter.pk}", filled())

    assert Message.objects.filter(pk=letter.pk).exists()
    assert Message.objects.count() == 2


@pytest.mark.parametrize("state", [CLAIMED, None], ids=["claimed meanwhile", "gone meanwhile"])
def test_nothing_is_published_if_the_original_cannot_be_cancelled(
    site: str, browse: Client, make: Make, state: Message.Status | None
) -> None:
    letter = a_dead_letter(make)
    rows = Message.objects.filter(pk=letter.pk)
    if state is None:
        rows.delete()
    else:
        rows.update(state=state)

    page = browse.post(f"{FORM}?copy={letter.pk}", filled(cancel_original="on"))

    assert "The original cannot be cancelled" in page.content.decode()
    assert Message.objects.count() == rows.count()


def test_a_copy_of_a_dead_letter_of_an_unknown_queue_proposes_none(site: str, browse: Client, make: Make) -> None:
    letter = a_dead_letter(make, headers={})

    assert browse.get(FORM, {"copy": letter.pk}).context["form"].initial["queue"] == ""


@pytest.mark.django_db
def test_cancelling_the_original_takes_its_permission(login_with: Callable[..., Client], make: Make) -> None:
    letter = a_dead_letter(make)
    client = login_with("add_message", "view_message")

    assert "cancel_original" not in client.get(FORM, {"copy": letter.pk}).context["form"].fields
    client.post(f"{FORM}?copy={letter.pk}", filled(cancel_original="on"))
    assert list(Message.objects.values_list("pk", flat=True)) == [letter.pk]


def test_an_edited_copy_of_a_task_begins_anew_and_shows_its_own_arguments(
    site: str, browse: Client, make: Make
) -> None:
    headers = {**TASK, "retries": 3, "argsrepr": "(7,)", "kwargsrepr": "{}"}
    task = make.message(DEAD, headers=headers, body=b"[[7], {}, null]")
    form = browse.get(FORM, {"copy": task.pk}).context["form"]
    edited = {
        **form.initial,
        "body": '[[8, "x"], {"slow": true}, null]',
        "headers": json.dumps(form.initial["headers"]),
    }

    browse.post(f"{FORM}?copy={task.pk}", {name: value for name, value in edited.items() if value is not None})

    copy = Message.objects.get()
    assert (copy.headers["retries"], copy.headers["argsrepr"]) == (0, "(8, 'x')")
    assert copy.headers["kwargsrepr"] == "{'slow': True}"


@pytest.mark.parametrize("wanted", ["999", "x", "9" * 40, "-1"])
def test_a_copy_of_nothing_is_an_empty_form(site: str, browse: Client, make: Make, wanted: str) -> None:
    assert browse.get(FORM, {"copy": wanted}).status_code == 200


def test_bytes_cannot_be_typed_and_so_not_copied(site: str, browse: Client, make: Make) -> None:
    message = make.message(body=b"\x00\xff", content_type="application/octet-stream")

    page = browse.get(FORM, {"copy": message.pk})

    assert "cannot be copied here" in page.content.decode()


@pytest.mark.django_db
def test_publishing_takes_its_permission(login_with: Callable[..., Client], make: Make) -> None:
    message = make.message()
    client = login_with("view_message", "view_queue")

    assert client.get(FORM).status_code == 403
    assert client.post(FORM, filled()).status_code == 403
    assert "?copy=" not in client.get(page_of(message)).content.decode()
    assert Message.objects.count() == 1


@pytest.mark.django_db
def test_whoever_may_only_publish_sees_no_message(login_with: Callable[..., Client], make: Make) -> None:
    message = make.message(body=b'{"secret": 1}')
    client = login_with("add_message")

    assert "secret" not in client.get(FORM, {"copy": message.pk}).content.decode()
    assert client.post(FORM, filled(), follow=True).status_code == 200
    assert client.get(list_of("message")).status_code == 403
    assert Message.objects.count() == 2
