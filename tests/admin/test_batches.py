"""Batches in the admin: their list, the page of one, its actions, and the panel of a member."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.acts.models import Act, ActedMessage
from django_mq.admin.live import HAVE, ROWS
from django_mq.api import Reject, batch, consumer, publish_many
from django_mq.batches.duty import look_again, prune
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.delivery.consumer.handlers import forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

    from tests.admin.conftest import Make

#: Dead letters stay in their queue, or go to another one.
QUEUES: dict[str, dict[str, Any]] = {"told": {}, "dead": {}, "parts": {"max_attempts": 1}}
BODIES = (1, 2, 3)


@pytest.fixture
def alias(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    for name, options in QUEUES.items():
        declare(shared_store("default"), name, options)
    yield "default"
    forget("parts")


def a_batch(name: str = "import 17", *, bodies: tuple[int, ...] = BODIES, **options: Any) -> MessageBatch:
    with batch(name, on_complete=("told", name), on_failure=("told", "look"), **options) as made:
        publish_many([("parts", body) for body in bodies])
    return MessageBatch.objects.get(pk=made.id)


def handle(*wrong: int) -> None:
    """Let a worker handle all members, and reject these bodies."""

    def part(message: Any) -> None:
        if message.body in wrong:
            raise Reject("no such customer")

    forget("parts")
    consumer("parts")(part)
    Worker([handler_of("parts")], threads=1).run(until_empty=True)
    look_again(shared_store("default"), 100)


def test_the_list_shows_states_counts_and_progress(alias: str, browse: Client) -> None:
    a_batch("import 17")
    handle(2)
    a_batch("import 18")
    a_batch("", bodies=(), open=True)

    page = browse.get(list_of("messagebatch"))
    words = page.content.decode()

    assert len(page.context["cl"].result_list) == 3
    for each in ("import 17", "3 of 3", "0 of 3", "not counted yet"):
        assert each in words
    for query, found in (
        ({"state__exact": "failed"}, ["import 17"]),
        ({"q": "port 1"}, ["import 18", "import 17"]),
        ({"q": str(MessageBatch.objects.get(name="import 17").pk)}, ["import 17"]),
        ({"q": "nothing"}, []),
        ({"since": (timezone.now() + timedelta(days=1)).isoformat()}, []),
    ):
        rows = browse.get(list_of("messagebatch"), query).context["cl"].result_list
        assert [row.name for row in rows] == found, query


def test_the_page_shows_failures_with_their_dead_letters_and_callbacks(alias: str, browse: Client) -> None:
    row = a_batch()
    handle(2)
    letter = Message.objects.get(queue__name="parts")

    page = browse.get(page_of(row)).content.decode()

    assert f"/message/by-id/{letter.message_id}/" in page or str(letter.message_id) in page
    for words in (
        "3 of 3",
        "no such customer",
        "when complete",
        "at the first failure",
        "told",
    ):
        assert words in page
    assert "not yet" not in page
    assert [name for name in ("close", "cancel", "redrive", "delete") if f'value="{name}"' in page] == [
        *("redrive", "delete"),
    ]


def test_the_pages_of_members_and_callbacks_name_the_batch(
    alias: str, browse: Client, login_with: Any, make: Make
) -> None:
    row = a_batch()
    handle(2)
    letter, told = Message.objects.get(queue__name="parts"), Message.objects.filter(queue__name="told").first()
    past = History.objects.filter(queue_name="parts").first()

    assert f'A member of the batch <a href="{page_of(row)}">' in browse.get(page_of(letter)).content.decode()
    assert "3 of 3 have ended." in browse.get(page_of(past)).content.decode()
    assert "Published by the batch" in browse.get(page_of(told)).content.decode()
    broken = make.message(headers={"x-batch-of": "seventeen", "x-batch": 7})
    assert "of the batch" not in browse.get(page_of(broken)).content.decode()
    client = login_with("view_message")
    assert "of the batch" not in client.get(page_of(letter)).content.decode()


def test_a_refresh_of_the_list_sends_the_rows_that_have_changed(alias: str, browse: Client) -> None:
    row, other = a_batch(), a_batch("import 18")
    page = browse.get(list_of("messagebatch")).content.decode()
    MessageBatch.objects.filter(pk=row.pk).update(state="cancelled")
    versions = " ".join(part.split('"')[0] for part in page.split('data-mq-part="')[1:])

    answer = browse.get(list_of("messagebatch"), headers={HAVE: versions, ROWS: f"{row.pk},{other.pk},7"}).json()

    assert list(answer["parts"]) == [f"mq-row-{row.pk}"]
    assert "new" not in answer


def test_actions_change_batches_and_are_recorded_with_their_messages(alias: str, browse: Client) -> None:
    row = a_batch(open=True)
    handle(2)
    assert said(run_action(browse, "messagebatch", "delete", [row], confirmed="yes"))[0].endswith(
        "has not ended, and is not deleted. Cancel it first."
    )
    assert said(run_action(browse, "messagebatch", "close", [row], confirmed="yes")) == [
        "“import 17” is closed, and has ended."
    ]
    assert said(run_action(browse, "messagebatch", "redrive", [row], confirmed="yes")) == [
        "1 dead letter of “import 17” is redriven."
    ]
    row.refresh_from_db()
    assert row.state == "running"
    assert said(run_action(browse, "messagebatch", "cancel", [row], running="on")) == [
        "“import 17” is cancelled: 1 member is removed."
    ]
    row.refresh_from_db()
    assert (row.state, row.cancelled) == ("cancelled", 1)
    assert said(run_action(browse, "messagebatch", "delete", [row], confirmed="yes")) == [
        "“import 17” is deleted."
    ]
    assert not MessageBatch.objects.exists()
    assert not BatchMember.objects.exists()

    acts = list(Act.objects.order_by("pk").values_list("name", "count"))
    assert acts == [("close", 0), ("redrive", 1), ("cancel", 1), ("delete", 0)]
    assert ActedMessage.objects.count() == 2
    assert Act.objects.get(name="cancel").command == f"python manage.py mq_batches --running cancel {row.pk}"


def test_a_large_batch_is_deleted_by_the_maintenance(
    alias: str, browse: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.batches.steering.MOST_DELETED", 1)
    row = a_batch()
    handle()

    assert (
        "workers delete the rest" in said(run_action(browse, "messagebatch", "delete", [row], confirmed="yes"))[0]
    )
    assert prune(shared_store(alias), 100) == 3
    assert not MessageBatch.objects.exists()


def test_no_page_counts_the_members(alias: str, browse: Client) -> None:
    row = a_batch()
    with CaptureQueriesContext(connections[alias]) as captured:
        browse.get(list_of("messagebatch"))
        browse.get(page_of(row))

    members = [each["sql"] for each in captured if "django_mq_batchmember" in each["sql"]]
    assert len(members) == 1
    assert "LIMIT 50" in members[0]
