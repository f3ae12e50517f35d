"""Worker sessions and their consumers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.admin.workers.admin import ConsumerColumns, WorkerSessionAdmin
from django_mq.models import Consumer, Message, WorkerSession
from tests.admin.conftest import list_of, page_of, run_action, said

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")


def test_a_session_past_its_deadline_is_marked(site: str, browse: Client, make: Make) -> None:
    make.session("lively")
    make.session("late", late=True)

    page = browse.get(list_of("workersession")).content.decode()

    assert page.count("mq-bad") == 1
    assert "stale for 2 min" in page
    assert "3 min" in page


def test_a_session_shows_its_consumers_with_their_credit(site: str, browse: Client, make: Make) -> None:
    session = make.session(held=3)
    Consumer.objects.create(session=session, queue_name="orders", credit_limit=20, credit_used=3)
    Consumer.objects.create(session=session, queue_name="mail", handler="shop.send", credit_used=1)

    page = browse.get(page_of(session)).content.decode()

    assert "3 / 20" in page
    assert "1 / no limit" in page
    assert "shop.send" in page


def test_the_pages_of_a_worker_and_of_its_message_show_what_runs(site: str, browse: Client, make: Make) -> None:
    session = make.session()
    message = make.message(Message.Status.CLAIMED, session=session, claim=7)
    session.running = [[message.pk, 7, "shop.<b>.bill", 75.0], [10**9, 8, "shop.send", 2.0]]
    session.save()

    of_worker = browse.get(page_of(session)).content.decode()
    of_message = browse.get(page_of(message)).content.decode()

    assert f'<a href="{page_of(message)}">shop.&lt;b&gt;.bill</a> for 1 min' in of_worker
    assert "shop.send</a> for 2 s" in of_worker
    assert "shop.&lt;b&gt;.bill handles it for 1 min" in of_message


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

    for address in (list_of("workersession"), list_of("consumer"), page_of(session)):
        assert "<script>alert" not in browse.get(address).content.decode()


def test_a_worker_is_told_to_be_quiet_to_work_and_its_credit(site: str, browse: Client, make: Make) -> None:
    session = make.session("shop-1", held=2)

    asked = run_action(browse, "workersession", "quiet", [session])
    quiet = run_action(browse, "workersession", "quiet", [session], yes="yes")
    limited = run_action(browse, "workersession", "limit", [session], credit="7")
    session.refresh_from_db()

    assert asked.context["preview"].rows == [["shop-1", "orders", "2"]]
    assert said(quiet) == ["“shop-1” is told to take no new work."]
    assert said(limited) == ["“shop-1” is told its max in flight: 7 for each consumer."]
    assert (session.conduct, session.given_credit) == ("quiet", 7)
    assert "alive, takes no new work" in browse.get(list_of("workersession")).content.decode()

    run_action(browse, "workersession", "work", [session])
    run_action(browse, "workersession", "limit", [session], credit="")
    session.refresh_from_db()
    assert (session.conduct, session.given_credit) == ("work", None)
    assert LogEntry.objects.filter(object_id=str(session.pk)).count() == 4


def test_a_worker_is_told_to_stop(site: str, browse: Client, make: Make) -> None:
    session = make.session("shop-1")
    asked = run_action(browse, "workersession", "stop", [session])
    stopped = run_action(browse, "workersession", "stop", [session], yes="yes")

    assert "A process manager may start another one" in asked.content.decode()
    assert said(stopped) == ["“shop-1” is told to stop."]
    session.refresh_from_db()
    assert session.conduct == "stop"


@pytest.mark.parametrize("credit", ["0", "-3", "1e9", "9999999999"])
def test_a_credit_that_makes_no_sense_is_asked_again(site: str, browse: Client, make: Make, credit: str) -> None:
    session = make.session("shop-1")

    asked = run_action(browse, "workersession", "limit", [session], credit=credit)

    session.refresh_from_db()
    assert asked.context["form"].errors
    assert session.given_credit is None


@pytest.mark.parametrize(
    ("state", "conduct", "shown"),
    [
        ("stopping", "work", "stopping"),
        ("stopping", "quiet", "alive, takes no new work"),
        ("still", "work", "stands still"),
        ("busy", "work", "alive"),
    ],
)
def test_a_worker_that_stops_or_stands_still_is_shown_as_such(
    site: str, browse: Client, make: Make, *, state: str, conduct: str, shown: str
) -> None:
    session = make.session("shop-1", conduct=conduct)
    Consumer.objects.create(session=session, queue_name="orders", state=state)

    [row] = browse.get(list_of("workersession")).context["cl"].result_list

    assert shown in WorkerSessionAdmin(WorkerSession, admin.site).status(row)


def test_a_consumer_shows_what_keeps_it_from_messages(site: str, browse: Client, make: Make) -> None:
    make.queue("mail", paused=True, paused_reason="stock take")
    make.queue("over", paused=True, paused_until=timezone.now() - timedelta(minutes=1))
    alive, late = make.session("alive"), make.session("late", late=True)
    quiet = make.session("quiet", conduct="quiet")
    for session, queue, state in (
        (alive, "orders", "notified"),
        (alive, "mail", "interested"),
        (alive, "over", "busy"),
        (alive, "tea", "paused"),
        (late, "orders", "interested"),
        (quiet, "orders", "stopping"),
    ):
        Consumer.objects.create(session=session, queue_name=queue, state=state, credit_limit=20, credit_used=3)

    page = browse.get(list_of("consumer"))
    rows = {
        (row.session.name, row.queue_name): ConsumerColumns().situation(row)
        for row in page.context["cl"].result_list
    }

    assert rows["alive", "orders"] == "working"
    assert "paused" in rows["alive", "mail"]
    assert rows["alive", "over"] == "at its max in flight"
    assert "stale" in rows["late", "orders"]
    assert rows["quiet", "orders"] == "takes no new work"
    assert "3 / 20" in page.content.decode()
    found = browse.get(list_of("consumer"), {"state": "working"}).context["cl"].result_list
    assert {row.state for row in found} == {"interested", "notified"}
    Consumer.objects.create(session=alive, queue_name="free", state="interested", credit_limit=20)
    [idle] = browse.get(list_of("consumer"), {"state": "idle"}).context["cl"].result_list
    assert (idle.queue_name, ConsumerColumns().situation(idle)) == ("free", "idle")
    found = browse.get(list_of("consumer"), {"state": "paused"}).context["cl"].result_list
    assert [row.queue_name for row in found] == ["tea"]


def test_workers_are_filtered_by_whether_they_are_alive(site: str, browse: Client, make: Make) -> None:
    make.session("alive")
    make.session("late", late=True)

    def names(status: str) -> list[str]:
        found = browse.get(list_of("workersession"), {"status": status}).context["cl"].result_list
        return [row.name for row in found]

    assert (names("alive"), names("stale")) == (["alive"], ["late"])


def test_a_worker_shows_its_slots_and_its_memory(site: str, browse: Client, make: Make) -> None:
    session = make.session(busy=3, slots=8, memory_bytes=90 * 2**20)
    make.session("of the version before")

    for address in (list_of("workersession"), page_of(session)):
        page = browse.get(address).content.decode().replace("\xa0", " ")
        assert "3 / 8" in page
        assert "None" not in page
        assert "90 MiB" in page
