"""One page of what operators did, and the history of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mq.admin.overview import log
from django_mq.api import publish_many
from django_mq.models import Message, Queue
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

DEAD = Message.Status.DEAD


def entries(client: Client, query: str = "") -> list[dict[str, Any]]:
    found = client.get(f"{list_of('queue')}log/{query}").context["entries"]
    return [
        {
            "user": entry.user.get_username(),
            "about": entry.content_type.model,
            "name": entry.object_repr,
            "words": entry.get_change_message(),
        }
        for entry, _ in found
    ]


def test_what_was_done_to_queues_messages_and_workers_is_on_one_page(
    site: str, browse: Client, make: Make
) -> None:
    message, session = make.message(DEAD), make.session()
    run_action(browse, "queue", "pause", [message.queue], reason="<b>stock take</b>")
    run_action(browse, "message", "redrive", [message], yes="yes")
    run_action(browse, "workersession", "quiet", [session], yes="yes")

    told = entries(browse)
    page = browse.get(f"{list_of('queue')}log/").content.decode()

    assert [(each["user"], each["about"]) for each in told] == [
        ("operator", "workersession"),
        ("operator", "message"),
        ("operator", "queue"),
    ]
    assert "stock take" in told[-1]["words"]
    assert "&lt;b&gt;stock take" in page
    assert page_of(message.queue) in page


@pytest.mark.django_db
def test_each_row_has_its_own_history(browse: Client, make: Make) -> None:
    message, session = make.message(DEAD), make.session()
    run_action(browse, "queue", "pause", [message.queue], reason="stock take")
    run_action(browse, "message", "redrive", [message], yes="yes")
    run_action(browse, "workersession", "quiet", [session], yes="yes")

    for row in (message, message.queue, session):
        assert page_of(row, "history") in browse.get(page_of(row)).content.decode()
        assert len(browse.get(page_of(row, "history")).context["action_list"]) == 1


@pytest.mark.django_db
def test_what_is_not_ours_is_not_shown(browse: Client, operator: User) -> None:
    LogEntry.objects.create(
        user=operator, content_type=None, object_repr="x", action_flag=2, change_message="other"
    )
    browse.post("/admin/auth/group/add/", {"name": "readers"})

    assert LogEntry.objects.count() == 2
    assert entries(browse) == []


@pytest.mark.django_db
def test_words_names_and_users_are_found(browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("orders", "mails"):
        run_action(browse, "queue", "pause", [make.queue(name)], reason=f"because of {name} 100%")

    assert [each["name"] for each in entries(browse, "?q=OF mails")] == ["mails"]
    assert [each["name"] for each in entries(browse, "?q=orders")] == ["orders"]
    assert len(entries(browse, "?q=operator")) == 2
    assert entries(browse, "?q=100%2525") == []
    monkeypatch.setattr(log, "SAMPLE", 1)
    assert len(entries(browse, "?q=operator")) == 1


@pytest.mark.django_db
def test_a_page_goes_on_where_the_last_one_ended(
    browse: Client, operator: User, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "PAGE", 2)
    queue = make.queue()
    for number in range(5):
        run_action(browse, "queue", "pause", [queue], reason=f"number {number}")

    address, seen = f"{list_of('queue')}log/", []
    query = ""
    while True:
        seen += [each["words"] for each in entries(browse, query)]
        more = browse.get(f"{address}{query}").context["more"]
        if more is None:
            break
        query = f"?before={more}"

    assert [words[-8:].strip(" .)") for words in seen] == sorted(
        (words[-8:].strip(" .)") for words in seen), reverse=True
    )
    assert len(seen) == 5
    assert "before=" in browse.get(f"{list_of('queue')}log/").content.decode()
    assert browse.get(f"{list_of('queue')}log/?before=nonsense").status_code == 200


@pytest.mark.django_db
def test_many_entries_take_no_more_statements_than_one(browse: Client, make: Make) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert browse.get(f"{list_of('queue')}log/").status_code == 200
        return len(captured)

    run_action(browse, "queue", "pause", [make.queue()], reason="x")
    statements()  # Django remembers content types from the first request on
    few = statements()
    for number in range(10):
        run_action(browse, "queue", "pause", [make.queue(f"q{number}")], reason="x")

    assert statements() == few


@pytest.mark.django_db
def test_who_may_not_view_a_table_sees_nothing_that_was_done_to_it(
    login_with: Callable[..., Client], make: Make, operator: User, client: Client
) -> None:
    client.force_login(operator)
    message = make.message(DEAD)
    run_action(client, "queue", "pause", [message.queue], reason="x")
    run_action(client, "message", "redrive", [message], yes="yes")

    reader = login_with("view_queue")

    assert [each["about"] for each in entries(reader)] == ["queue"]
    User.objects.filter(username="reader").delete()
    assert [each["about"] for each in entries(login_with("change_queue"))] == ["queue"]
    User.objects.filter(username="reader").delete()
    stranger = login_with("view_message")
    assert stranger.get(f"{list_of('queue')}log/").status_code == 403


def test_what_was_chosen_by_select_all_is_logged_with_its_filters(site: str, browse: Client, make: Make) -> None:
    rows = [make.message(DEAD, type="bill") for _ in range(2)]
    make.message(DEAD, type="other")
    data = {"action": "redrive", "select_across": "1", "_selected_action": [rows[0].pk]}

    browse.post(f"{list_of('message')}?type=bill", data, follow=True)

    [entry] = LogEntry.objects.all()
    assert 'Redriven: 2 of 2 messages. {"filters": {"type": "bill"}}' in entry.change_message
    assert all(str(row.message_id) in entry.change_message for row in rows)


def test_thousands_have_separators_in_what_is_told(site: str, browse: Client, make: Make) -> None:
    make.queue("orders")
    publish_many([("orders", number) for number in range(1_234)])

    response = run_action(browse, "queue", "purge", list(Queue.objects.all()), typed="purge")

    assert said(response) == ["“orders” is purged: 1,234 messages."]
