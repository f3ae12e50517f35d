"""A copy of a Celery message, by command or by form, is another task: it has an id of its own."""

from __future__ import annotations

import json
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import pytest
from celery import chain
from django.core.management import call_command

from django_mq.admin.messages.publish_form import PublishForm, copied
from django_mq.api import OutgoingMessage, publish_many
from django_mq.diagnosis.messages.task_ids import with_task_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery

    from django_mq.models import Message
    from tests.integrations.celery.conftest import Rows


def by_command(message: Message, alias: str) -> None:
    call_command("mq_publish", message.queue.name, "--copy", str(message.message_id), "--database", alias)


def by_form(message: Message, alias: str) -> None:
    shown = copied(message)
    assert shown is not None
    typed = {**shown, "headers": json.dumps(shown["headers"])}
    for _ in range(2):  # to go back in the browser and publish again publishes another message
        form = PublishForm(typed)
        assert form.is_valid(), form.errors
        publish_many([form.outgoing()], using=alias)


def by_file(message: Message, alias: str) -> None:
    with NamedTemporaryFile("w", suffix=".jsonl") as file:
        call_command("mq_download", "--database", alias, stdout=file)
        file.flush()
        call_command("mq_publish", message.queue.name, "--messages", "--file", file.name, "--database", alias)


ways = pytest.mark.parametrize("copy", [by_command, by_form, by_file])


@ways
def test_a_copied_task_has_its_own_id_and_is_found_by_it(
    app: Celery, rows: Rows, committed_database: str, settings: Any, copy: Callable[[Message, str], None]
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": committed_database}
    sent = app.send_task("note", (7,), priority=8)

    copy(rows()[0], committed_database)

    first, *copies = rows()
    assert first.headers["id"] == first.headers["root_id"] == first.correlation_id == sent.id
    for one in copies:
        assert one.headers["id"] == one.headers["root_id"] == one.correlation_id
        assert {**one.headers, "id": sent.id, "root_id": sent.id} == first.headers
        assert (json.loads(bytes(one.body)), one.type, one.priority) == (json.loads(bytes(first.body)), "note", 8)
    assert len({one.correlation_id for one in rows()}) == len(rows()) > 1


@ways
def test_a_copied_task_keeps_the_root_and_the_parent_of_its_chain(
    app: Celery, rows: Rows, committed_database: str, settings: Any, copy: Callable[[Message, str], None]
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": committed_database}
    app.send_task("note", root_id="the-root", parent_id="the-parent")

    copy(rows()[0], committed_database)

    first, copied_one, *_ = rows()
    assert copied_one.headers["id"] != first.headers["id"]
    assert (copied_one.headers["root_id"], copied_one.headers["parent_id"]) == ("the-root", "the-parent")


def test_what_follows_a_copied_task_is_what_followed_it(app: Celery, rows: Rows, committed_database: str) -> None:
    note = app.tasks["note"]
    chain(note.si(), note.si()).apply_async()

    by_command(rows()[0], committed_database)

    first, again = rows()
    assert bytes(again.body) == bytes(first.body)


def test_a_compressed_body_is_copied_as_it_is_or_replaced(
    app: Celery, rows: Rows, committed_database: str
) -> None:
    app.send_task("note", ("long " * 100,), compression="gzip")
    first = rows()[0]

    by_command(first, committed_database)
    other = ["celery", "--copy", str(first.message_id), '[["short"], {}, {}]', "--database", committed_database]
    call_command("mq_publish", *other)

    _, same, edited = rows()
    assert (bytes(same.body), same.headers["compression"]) == (bytes(first.body), first.headers["compression"])
    assert (bytes(edited.body), "compression" in edited.headers) == (b'[["short"],{},{}]', False)


def test_an_id_that_somebody_typed_stays(app: Celery, rows: Rows, committed_database: str) -> None:
    app.send_task("note")
    copy = ["celery", "--copy", str(rows()[0].message_id), "--header", "id=mine", "--database", committed_database]

    call_command("mq_publish", *copy)

    again = rows()[1]
    assert (again.headers["id"], again.headers["root_id"], again.correlation_id) == ("mine", "mine", "mine")


def test_headers_of_ones_own_are_nobodys_task() -> None:
    letter = OutgoingMessage(headers={"task": "paint the fence", "id": 7})

    assert with_task_id(letter) is letter
