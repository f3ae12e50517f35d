"""Downloads of selected messages or of all that match, with a log entry."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import AsyncClient

from django_mq.models import Message
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

DEAD = Message.Status.DEAD

pytestmark = pytest.mark.django_db


def download(client: Client, form: str, rows: list[Message], *, across: str = "0", filters: str = "") -> Any:
    data = {"action": f"download_{form}", "_selected_action": [row.pk for row in rows], "select_across": across}
    return client.post(f"{list_of('message')}{filters}", data)


def bodies(response: Any) -> list[Any]:
    return [json.loads(line)["body"] for line in response.getvalue().decode().splitlines()]


def test_selected_messages_are_downloaded(site: str, browse: Client, make: Make) -> None:
    rows = [make.message(state, body=b"%d" % number) for number, state in enumerate(Message.Status)]

    lines = download(browse, "json", rows[1:3])
    table = download(browse, "csv", rows[1:3])

    assert bodies(lines) == [1, 2]
    assert "attachment" in lines["Content-Disposition"]
    assert lines["Content-Disposition"].endswith('.jsonl"')
    read = list(csv.DictReader(io.StringIO(table.getvalue().decode(), newline="")))
    assert [(row["body"], row["state"]) for row in read] == [("1", "ready"), ("2", "claimed")]
    assert table["Content-Type"] == "text/csv; charset=utf-8"


def test_all_that_match_the_filters_are_downloaded(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.messages.selection.LIMIT", 2)
    rows = [make.message(DEAD, type="bill", body=b"%d" % number) for number in range(5)]
    make.message(DEAD, type="other")

    response = download(browse, "json", rows[:1], across="1", filters="?type=bill&state=3")

    assert bodies(response) == [0, 1, 2, 3, 4]
    [entry] = LogEntry.objects.all()
    assert entry.change_message == 'Downloaded as jsonl: 5 messages. {"filters": {"type": "bill", "state": "3"}}'


def test_who_downloaded_which_messages_is_remembered(browse: Client, operator: User, make: Make) -> None:
    alone, other = make.message(), make.message()

    download(browse, "json", [alone])
    download(browse, "csv", [alone, other])

    both, single = LogEntry.objects.order_by("-pk")
    assert (single.user, single.object_id) == (operator, str(alone.pk))
    assert (both.object_id, str(other.message_id) in both.change_message) == (None, True)


def test_a_reader_may_download_and_who_may_not_look_may_not(
    login_with: Callable[..., Client], make: Make, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": ["password"]}
    row = make.message(body=b'{"password": "hunter2"}')

    seen = download(login_with("view_message"), "json", [row])

    assert bodies(seen) == [{"password": "***"}]

    User.objects.all().delete()
    assert download(login_with("view_queue", "move_message"), "json", [row]).status_code == 403


def test_the_page_of_a_message_offers_all_of_its_body(browse: Client, make: Make) -> None:
    row = make.message(body=json.dumps("x" * 60_000).encode())

    offers = dict(browse.get(page_of(row)).context["buttons"])

    assert "download_json" in offers
    assert bodies(download(browse, "json", [row])) == ["x" * 60_000]


def test_an_asynchronous_server_is_sent_it_piece_by_piece(
    operator: User, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.messages.downloads.PIECE", 1)
    rows = [make.message(body=b"%d" % number) for number in range(3)]
    client = AsyncClient()
    client.force_login(operator)
    data = {"action": "download_json", "_selected_action": [row.pk for row in rows]}

    async def pieces() -> list[bytes]:
        response = await client.post(list_of("message"), data)
        assert response.is_async
        return [piece async for piece in response]

    read = async_to_sync(pieces)()

    assert [json.loads(piece)["body"] for piece in read if piece] == [0, 1, 2]
