"""Worker sessions and their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_mq.models import Consumer
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make


def test_a_session_past_its_deadline_is_marked(site: str, browse: Client, make: Make) -> None:
    make.session("lively")
    make.session("late", late=True)

    page = browse.get(list_of("workersession")).content.decode()

    assert page.count("mq-bad") == 1
    assert "stale for 2 min" in page
    assert "3 min ago" in page


def test_a_session_shows_its_consumers_with_their_credit(site: str, browse: Client, make: Make) -> None:
    session = make.session(held=3)
    Consumer.objects.create(session=session, queue_name="orders", credit_limit=20, credit_used=3)
    Consumer.objects.create(session=session, queue_name="mail", handler="shop.send", credit_used=1)

    page = browse.get(page_of(session)).content.decode()

    assert "3 / 20" in page
    assert "1 / no limit" in page
    assert "shop.send" in page


def test_the_list_takes_as_many_queries_for_many_sessions_as_for_one(
    site: str, browse: Client, make: Make
) -> None:
    def count() -> int:
        with CaptureQueriesContext(connections[site]) as captured:
            browse.get(list_of("workersession"))
        return len(captured)

    make.session()
    few = count()
    for number in range(10):
        make.session(f"worker {number}")

    assert count() == few


def test_nothing_a_worker_says_of_itself_is_shown_unescaped(site: str, browse: Client, make: Make) -> None:
    script = "<script>alert(1)</script>"
    said: dict[str, Any] = {"host": script, "version": script, "queues": [script]}
    session = make.session(script, **said)
    Consumer.objects.create(session=session, queue_name=script, handler=script)

    for address in (list_of("workersession"), page_of(session)):
        assert "<script>alert" not in browse.get(address).content.decode()
