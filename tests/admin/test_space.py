"""The page with the space that the tables take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.stores.records import Space
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client


def test_the_page_shows_what_the_database_says(site: str, browse: Client) -> None:
    page = browse.get(f"{list_of('queue')}space/")

    assert page.status_code == 200
    assert page.context["rows"]
    assert all(space.table in page.content.decode() for space, _ in page.context["rows"])


@pytest.mark.django_db
def test_what_is_wrong_stands_there_with_what_mends_it(browse: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = [Space("<b>file</b>", 10**10, loose=9 * 10**9)]
    monkeypatch.setattr("django_mq.stores.sqlite.store.SQLiteServer.spaces", lambda _: grown)

    page = browse.get(f"{list_of('queue')}space/").content.decode()

    assert "8.38 GiB of the database file are unused" in page
    assert "&lt;b&gt;file" in page
    assert '<pre class="mq-payload">VACUUM' in page


@pytest.mark.django_db
def test_who_may_not_view_queues_sees_no_tables(login_with: Callable[..., Client]) -> None:
    client = login_with("view_message")

    assert client.get(f"{list_of('queue')}space/").status_code == 403
