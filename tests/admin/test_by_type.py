"""What runs and what fails, by type: the figures of a plain count, at a cost that does not grow."""

from __future__ import annotations

from datetime import timedelta
from statistics import quantiles
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.admin.overview import by_type as page_of_types
from django_mq.diagnosis.state import by_type
from django_mq.models import Attempt, History
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCRIPT = "<script>document.title = 'broken in'</script>"


def address(page: str = "types/") -> str:
    return f"{list_of('history')}{page}"


def json_view(browse: Client, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = browse.get(address("types.json"), query).json()
    return found


def ran(type: str, *, waited: float, seconds: float, queue: str = "orders", **values: Any) -> History:  # noqa: A002
    """Return a message that finished a minute ago."""
    finished = timezone.now() - timedelta(minutes=1)
    claimed = finished - timedelta(seconds=seconds)
    ready = claimed - timedelta(seconds=waited)
    given: dict[str, Any] = {"priority": 4, "outcome": 1, "attempts": 0, "message_id": uuid4()}
    given |= {"published_at": ready, "ready_at": ready, "claimed_at": claimed, "finished_at": finished}
    return History(queue_name=queue, type=type, **given | values)


def test_each_type_has_its_own_waits_and_runs(site: str, browse: Client, make: Make) -> None:
    History.objects.bulk_create(ran("mail", waited=number, seconds=number / 10) for number in range(1, 101))
    History.objects.bulk_create([ran("ship", waited=0, seconds=3600), ran("ship", waited=0, seconds=1, queue="b")])

    runs = json_view(browse)["runs"]

    assert [(row["type"], row["queue"], row["accepted"]) for row in runs["rows"]] == [
        ("ship", "orders", 1),
        ("mail", "orders", 100),
        ("ship", "b", 1),
    ]
    mail = runs["rows"][1]
    assert (mail["wait_p50"], mail["wait_p95"], mail["wait_p99"]) == pytest.approx((50, 95, 99))
    assert (mail["held_p50"], mail["held_p95"], mail["held_p99"]) == pytest.approx((5, 9.5, 9.9))
    assert mail["held_p50"] == pytest.approx(quantiles([number / 10 for number in range(1, 101)], n=2)[0], abs=0.1)
    assert mail["held_seconds"] == pytest.approx(505)
    assert (runs["read"], runs["cut"]) == (102, False)


def test_only_what_was_accepted_ran(site: str, browse: Client, make: Make) -> None:
    History.objects.bulk_create(
        ran("mail", waited=1, seconds=1, outcome=outcome, claimed_at=None) for outcome in (2, 3, 4, 5)
    )

    assert json_view(browse)["runs"]["rows"] == []


def test_failures_are_counted_by_exception_queue_and_type(site: str, browse: Client, make: Make) -> None:
    now = timezone.now()
    for error, type_, queue in (("E", "mail", "a"), ("E", "mail", "a"), ("E", "ship", "a"), ("F", "mail", "b")):
        make.attempt(error=error, type=type_, queue_name=queue, failed_at=now - timedelta(minutes=2))
    newest = make.attempt(error="E", type="mail", queue_name="a", failed_at=now - timedelta(minutes=1))

    failures = json_view(browse)["failures"]["rows"]

    assert [(row["error"], row["type"], row["queue"], row["attempts"]) for row in failures] == [
        ("E", "mail", "a", 3),
        ("E", "ship", "a", 1),
        ("F", "mail", "b", 1),
    ]
    assert failures[0]["last"][:19] == newest.failed_at.isoformat()[:19]


def test_an_hour_and_a_day_are_offered_and_one_queue_by_itself(site: str, browse: Client, make: Make) -> None:
    now = timezone.now()
    before = {"ready_at": now - timedelta(hours=3), "claimed_at": now - timedelta(hours=3)}
    History.objects.bulk_create(
        [
            ran("early", waited=0, seconds=1, **before, finished_at=now - timedelta(hours=2)),
            ran("late", waited=0, seconds=1),
            ran("late", waited=0, seconds=1, queue="mails"),
        ]
    )

    def types(**query: str) -> list[tuple[str, str]]:
        return [(row["type"], row["queue"]) for row in json_view(browse, **query)["runs"]["rows"]]

    assert types() == types(span="year") == [("late", "mails"), ("late", "orders")]
    assert sorted(types(span="day")) == [("early", "orders"), ("late", "mails"), ("late", "orders")]
    assert types(queue="mails") == [("late", "mails")]
    assert types(queue="' OR 1=1") == []


def test_of_more_than_it_reads_it_says_so(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_type, "NEWEST", 3)
    monkeypatch.setattr(page_of_types, "SHOWN", 1)
    now = timezone.now()
    times = [now - timedelta(minutes=number) for number in range(1, 6)]
    History.objects.bulk_create(
        ran(f"t{number}", waited=0, seconds=1, finished_at=time) for number, time in enumerate(times)
    )
    for time in times:
        make.attempt(failed_at=time)

    found, page = json_view(browse), browse.get(address()).content.decode()

    assert sorted(row["type"] for row in found["runs"]["rows"]) == ["t0", "t1", "t2"]
    assert (found["runs"]["read"], found["runs"]["cut"]) == (3, True)
    assert found["runs"]["since"][:19] == times[2].isoformat()[:19]
    assert "Counted over the newest 3 finished messages" in page
    assert "Counted over the newest 3 failed attempts" in page
    assert "2 more rows are in the JSON" in page


def test_a_type_leads_to_its_messages_and_an_exception_to_its_attempts(
    site: str, browse: Client, make: Make
) -> None:
    History.objects.bulk_create([ran("a&b", waited=0, seconds=1), ran("", waited=0, seconds=1, queue="other")])
    kept = make.attempt(error="E", type="a&b")
    make.attempt(error="E", type="c")
    page = browse.get(address())
    (first, second), (failed, _) = page.context["ran"]["rows"], page.context["failed"]["rows"]

    assert {one.type for one in browse.get(first["history"]).context["cl"].result_list} == {"a&b"}
    assert "type" not in second["history"]
    assert list(browse.get(failed["attempts"]).context["cl"].result_list) == [kept]
    assert browse.get(first["messages"]).status_code == browse.get(failed["messages"]).status_code == 200


def test_nothing_that_a_message_says_is_taken_for_a_page(site: str, browse: Client, make: Make) -> None:
    History.objects.bulk_create([ran(SCRIPT, waited=0, seconds=1)])
    make.attempt(error=SCRIPT, type=SCRIPT)

    page = browse.get(address()).content.decode()

    assert SCRIPT not in page
    assert page.count("&lt;script&gt;document.<wbr>title") >= 3


def test_it_costs_the_same_however_many_types_there_are(
    site: str, browse: Client, make: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    History.objects.bulk_create(ran(f"t{number}", waited=0, seconds=1) for number in range(50))
    for number in range(50):
        make.attempt(type=f"t{number}")

    with django_assert_max_num_queries(6):
        browse.get(address())


@pytest.mark.on("sqlite", "postgresql")
@pytest.mark.parametrize(("model", "index"), [(History, "history_pruning"), (Attempt, "attempt_pruning")])
def test_the_newest_are_found_by_their_time(
    site: str, browse: Client, make: Make, model: type[Any], index: str
) -> None:
    vendor = connections[site].vendor
    if vendor == "mysql":
        pytest.skip("of an empty table MariaDB tells no plan that says anything")
    if vendor == "postgresql":
        with connections[site].cursor() as cursor:
            # An empty table is rightly read whole, and sorted: what counts is that the index can serve.
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    with CaptureQueriesContext(connections[site]) as captured:
        browse.get(address())
    table = model._meta.db_table
    [look] = [
        each["sql"] for each in captured.captured_queries if f"{table}" in each["sql"] and "LIMIT" in each["sql"]
    ]
    with connections[site].cursor() as cursor:
        cursor.execute(f"{'EXPLAIN QUERY PLAN' if vendor == 'sqlite' else 'EXPLAIN'} {look}")
        plan = str(cursor.fetchall())

    assert f"django_mq_{index}" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("page", ["types/", "types.json"])
def test_it_takes_the_permission_to_view_the_history(
    site: str, login_with: Callable[..., Client], page: str
) -> None:
    assert login_with("view_queue", "view_attempt").get(address(page)).status_code == 403


def test_failures_take_the_permission_to_view_attempts(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    make.attempt(error="Secret")
    reader = login_with("view_history")

    assert "Secret" not in reader.get(address()).content.decode()
    assert reader.get(address("types.json")).json()["failures"] is None


def test_nobody_sees_it_without_logging_in(site: str, client: Client) -> None:
    assert client.get(address()).status_code == 302


def test_the_overview_and_the_menu_lead_there(site: str, browse: Client, make: Make) -> None:
    for page in (f"{list_of('queue')}overview/", list_of("queue").removesuffix("queue/")):
        assert address() in browse.get(page).content.decode()


def test_the_page_speaks_german(site: str, browse: Client, make: Make, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"

    page = browse.get(address()).content.decode()

    assert "Was läuft und was fehlschlägt" in page
    assert "Gezählt über alle 0 beendeten Nachrichten (seit" in page
