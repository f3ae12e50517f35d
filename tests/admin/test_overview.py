"""The overview: what is wrong with which queue, at a glance, and the same as JSON."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from django_mq.admin.overview.charts import Line, draw, figure, paths, scale_end
from django_mq.engine.histograms import LARGEST_ERROR, as_text, histogram_of, merged
from django_mq.models import Consumer, Message, Rollup
from tests.admin.browser import ANY_NUMBER, browsing, log_in, picture
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite", once="postgresql")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
SCRIPT = "<script>document.title = 'broken in'</script>"


def address(page: str = "overview/") -> str:
    return f"{list_of('queue')}{page}"


#: The minute that ran when the test began.
BEGUN: dict[str, datetime] = {}


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute may end while a test writes: all that it writes is counted back from one."""
    monkeypatch.setitem(BEGUN, "minute", timezone.now().replace(second=0, microsecond=0))


def minute(ago: int, queue: str = "orders", *, waits: Sequence[float] = (), **counts: int) -> None:
    """Write what a minute brought to a queue, and to all queues."""
    Rollup.objects.create(begins_at=known(ago), queue_name=queue, waits=as_text(histogram_of(waits)), **counts)
    whole = Rollup.objects.get(begins_at=known(ago), queue_name="")
    for name, number in counts.items():
        setattr(whole, name, getattr(whole, name) + number)
    whole.waits = as_text(merged([whole.waits, as_text(histogram_of(waits))]))
    whole.save()


def known(*ago: int) -> datetime:
    """Say of minutes that they have been summed up; return the last of them."""
    for number in ago:
        Rollup.objects.get_or_create(begins_at=BEGUN["minute"] - timedelta(minutes=number), queue_name="")
    return BEGUN["minute"] - timedelta(minutes=ago[-1])


def test_each_queue_is_shown_with_its_depth_age_rates_and_credit(site: str, browse: Client, make: Make) -> None:
    make.message(READY, published_at=timezone.now() - timedelta(minutes=10, seconds=2))
    make.message(DEAD)
    session = make.session(busy=3, slots=4)
    make.session("late@host", late=True, busy=9, slots=9)
    Consumer.objects.create(session=session, queue_name="orders", credit_used=5, credit_limit=20)
    known(2, 3, 4, 5, 6)
    minute(1, arrived=300, accepted=150, failed=30, redelivered=15)

    figures = browse.get(address("overview.json")).json()

    (queue,) = figures["queues"]
    assert (queue["ready"], queue["dead"], queue["consumers"]) == (1, 1, 1)
    assert queue["oldest_ready_seconds"] == pytest.approx(602, abs=300)
    assert queue["rates"] == {"arrived": 1.0, "accepted": 0.5, "failed": 0.1, "redelivered": 0.05}
    assert figures["points"][-1]["redelivered"] == 0.25
    assert (queue["credit_used"], queue["credit_limit"]) == (5, 20)
    assert (queue["slots_busy"], queue["slots"]) == (3, 4)
    assert figures["workers"] == {"alive": 1, "stale": 1, "slots_busy": 3, "slots": 4}
    page = browse.get(address()).content.decode()
    assert 'title="25 %">5/20<' in page
    assert 'title="75 %">3/4<' in page
    assert "3 of 4 slots busy (75 %)" in page
    assert 'class="mq-number mq-bad"><span class="mq-ago">10 min' in page


def test_a_rate_that_is_not_zero_does_not_look_like_zero(site: str, browse: Client, make: Make) -> None:
    make.queue()
    known(2, 3, 4, 5, 6)
    minute(1, arrived=300, failed=1)

    page = browse.get(address()).content.decode()

    assert '<td class="mq-number mq-bad">&lt; 0.01</td>' in page
    assert '<td class="mq-number">1</td><td class="mq-number">0</td>' in page


def test_the_queue_that_waits_longest_stands_first(site: str, browse: Client, make: Make) -> None:
    for name, minutes in (("a", 1), ("b", 9), ("c", 3)):
        make.message(READY, make.queue(name), published_at=timezone.now() - timedelta(minutes=minutes))

    assert [queue["name"] for queue in browse.get(address("overview.json")).json()["queues"]] == ["b", "c", "a"]


def test_letters_in_a_dead_letter_queue_raise_an_alert_and_do_not_wait(
    site: str, browse: Client, make: Make
) -> None:
    long_ago = timezone.now() - timedelta(days=3)
    letters = make.message(READY, make.queue("letters"), published_at=long_ago, dead_reason="boom").queue
    make.queue("quiet")
    make.message(READY, make.queue("orders", dead_letter_queue=letters))

    page = browse.get(address())

    assert [row.state.name for row in page.context["rows"]] == ["letters", "orders", "quiet"]
    assert [row.is_late for row in page.context["rows"]] == [False, False, False]
    assert '<span class="mq-bad">dead letters</span>' in page.content.decode()


def test_the_percentiles_of_all_queues_are_those_of_all_their_messages(
    site: str, browse: Client, make: Make
) -> None:
    minute(1, "a", accepted=30, waits=[1.0] * 30)
    minute(1, "b", accepted=10, waits=[5.0] * 8 + [9.0] * 2)
    minute(2, "a", arrived=6)

    points = browse.get(address("overview.json")).json()["points"]

    assert len(points) == 60
    assert points[-1]["wait_p50"] == pytest.approx(1.0, rel=LARGEST_ERROR)
    assert points[-1]["wait_p95"] == pytest.approx(5.0, rel=LARGEST_ERROR)
    assert points[-1]["wait_p99"] == pytest.approx(9.0, rel=LARGEST_ERROR)
    assert (points[-2]["arrived"], points[-2]["wait_p50"]) == (pytest.approx(0.1), None)


def arrived(browse: Client, **query: str) -> list[float | None]:
    return [point["arrived"] for point in browse.get(address("overview.json"), query).json()["points"]]


def test_the_charts_end_at_the_newest_minute_that_has_been_summed_up(
    site: str, browse: Client, make: Make
) -> None:
    make.queue()
    for ago in (2, 3):
        minute(ago, arrived=60)

    assert arrived(browse)[-3:] == [None, 1.0, 1.0]
    figures = browse.get(address())
    assert "published 1/s" in figures.content.decode()
    assert "summed up" not in figures.content.decode()


def test_a_minute_that_nobody_has_summed_up_is_a_gap_and_one_without_traffic_is_zero(
    site: str, browse: Client, make: Make
) -> None:
    make.queue()
    minute(1, "mails", arrived=60)
    known(2)
    minute(4, arrived=120)

    assert arrived(browse)[-4:] == [2.0, None, 0.0, 1.0]
    assert arrived(browse, queue="orders")[-4:] == [2.0, None, 0.0, 0.0]


def test_a_step_of_a_day_is_divided_by_the_minutes_that_are_known(site: str, browse: Client, make: Make) -> None:
    make.queue()
    for ago in (1, 2):
        minute(ago, arrived=60)
    known(3)
    steps: dict[int, list[int]] = {}
    for ago, number in ((3, 0), (2, 60), (1, 60)):
        steps.setdefault(int(known(ago).timestamp()) // 600, []).append(number)

    found = [rate for rate in arrived(browse, span="day") if rate is not None]

    assert found == pytest.approx([sum(numbers) / len(numbers) / 60 for numbers in steps.values()])


@pytest.mark.parametrize("ago", [10, 24 * 60])
def test_where_nobody_sums_up_any_more_nothing_is_shown_and_the_page_says_so(
    site: str, browse: Client, make: Make, ago: int
) -> None:
    make.queue()
    for number in range(ago, ago + 5):
        minute(number, arrived=60)

    figures = browse.get(address("overview.json")).json()
    page = browse.get(address()).content.decode()

    assert figures["points"][-1]["arrived"] is None
    assert figures["queues"][0]["rates"] is None
    assert "published -" in page
    assert ("summed up the minutes since" if ago == 10 else "summed up a minute of this span") in page


def test_rates_are_those_of_the_newest_minutes_that_are_known(site: str, browse: Client, make: Make) -> None:
    make.queue()
    for ago in (2, 3, 5):
        minute(ago, arrived=60)
    known(6)
    minute(7, arrived=600)

    (queue,) = browse.get(address("overview.json")).json()["queues"]

    assert queue["rates"]["arrived"] == pytest.approx(780 / 5 / 60)


def test_a_day_is_shown_in_steps_of_ten_minutes_and_one_queue_by_itself(
    site: str, browse: Client, make: Make
) -> None:
    make.queue()
    for ago in (1, 2, 700):
        minute(ago, accepted=60)
    minute(1, "mails", accepted=600)

    points = browse.get(address("overview.json"), {"span": "day", "queue": "orders"}).json()["points"]

    assert len(points) == 144
    # Each step is divided by what is known of it.
    rates = [point["accepted"] for point in points if point["accepted"]]
    assert rates == pytest.approx([1.0] * len(rates))
    assert 2 <= len(rates) <= 3


def test_an_unknown_span_or_queue_is_the_usual_one(site: str, browse: Client, make: Make) -> None:
    found = browse.get(address("overview.json"), {"span": "year", "queue": "' OR 1=1"}).json()

    assert (found["span"], len(found["points"])) == ("hour", 60)


def test_the_page_costs_the_same_however_many_queues_there_are(
    site: str, browse: Client, make: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        make.message(READY, make.queue(f"q{number}"))
        Consumer.objects.create(session=make.session(f"w{number}"), queue_name=f"q{number}")

    # The extensions look for what is wrong within one savepoint, each by a statement or two.
    with django_assert_max_num_queries(26):
        browse.get(address())


@pytest.mark.parametrize("page", ["overview/", "overview.json"])
def test_it_takes_the_permission_to_view_queues(site: str, login_with: Callable[..., Client], page: str) -> None:
    assert login_with("view_message").get(address(page)).status_code == 403
    Message.objects.all().delete()


def test_whoever_may_view_queues_sees_it(site: str, login_with: Callable[..., Client]) -> None:
    assert login_with("view_queue").get(address()).status_code == 200


def test_nobody_sees_it_without_logging_in(site: str, client: Client) -> None:
    assert client.get(address("overview.json")).status_code == 302


@pytest.mark.parametrize(
    ("largest", "end"), [(0, 1), (0.03, 0.05), (0.9, 1), (1, 1), (1.2, 2), (47, 50), (51, 100), (2001, 5000)]
)
def test_a_scale_ends_at_a_round_number(largest: float, end: float) -> None:
    assert scale_end(largest) == pytest.approx(end)


def test_a_missing_value_leaves_a_gap() -> None:
    assert paths([0, None, 10], 10) == ("", "M0.0 120.0h0M600.0 0.0h0")
    assert paths([0, 5, 10], 10) == ("M0.0 120.0L300.0 60.0L600.0 0.0", "")
    assert paths([], 1) == ("", "")


def test_a_chart_says_in_words_what_it_shows() -> None:
    chart = draw("Wait", [Line("p50", "median", [0.1, 0.25, None])], unit="s", begins="a", ends="b")

    assert chart.summary == "Wait: median 250 ms"
    assert figure(1234.0, "/s") == "1,234/s"


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_renews_itself_until_told_to_stand_still(
    dark: bool, live_server: LiveServer, operator: User, make: Make
) -> None:
    make.message(READY, make.queue(SCRIPT), published_at=timezone.now() - timedelta(hours=2))
    make.message(CLAIMED, make.queue("late"))
    make.queue("mails", paused=True, paused_reason=SCRIPT)
    for ago in range(1, 60):
        minute(ago, "mails", arrived=600 + ago * 7 % 90, accepted=580, failed=ago % 5, waits=[0.2, 2.0])

    with browsing(live_server.url, dark=dark) as page:
        log_in(page)
        page.goto(address())
        figures = page.locator("#mq-figures")
        expect(figures.get_by_role("row", name="mails")).to_contain_text("paused")
        expect(page.get_by_text(f"The reason: {SCRIPT}")).to_be_visible()
        picture(page, f"overview-{'dark' if dark else 'light'}")
        bar = page.locator("#mq-live")
        expect(bar).to_have_attribute("data-renewed", ANY_NUMBER)

        page.get_by_role("button", name="Freeze the page").click()
        expect(page.get_by_role("button", name="Refresh again")).to_have_attribute("aria-pressed", "true")
        before = int(bar.get_attribute("data-renewed") or 0)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.get_by_role("button", name="Refresh again").click()
        # It may have renewed itself once more by the time that we look.
        page.wait_for_function(
            "before => Number(document.getElementById('mq-live').dataset.renewed) > before", arg=before
        )
        assert page.title() != "broken in"


def test_of_very_many_queues_the_page_shows_those_that_need_a_look_and_the_chosen_one(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_ROWS", "ROWS_BESIDE_MAP"):
        monkeypatch.setattr(f"django_mq.admin.overview.page.{name}", 2)
    for name in ("a", "b", "c"):
        make.message(queue=make.queue(name))
    make.message(queue=make.queue("late"), published_at=timezone.now() - timedelta(hours=1))

    whole, page = browse.get(address("overview.json")), browse.get(address(), {"queue": "c"})

    assert [row.state.name for row in page.context["shown_rows"]] == ["late", "a", "c"]
    assert "These queues are the most urgent" in page.content.decode()
    assert len(whole.json()["queues"]) == 4
