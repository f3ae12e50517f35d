"""The charts of all queues and of one: the figures of the past, and where they lead."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from django_mq.acts.models import Act
from django_mq.acts.operators import of_site
from django_mq.acts.recorder import new_act, write
from django_mq.admin.overview.charts import Axis, usual_end
from django_mq.engine.histograms import LARGEST_ERROR, as_text, histogram_of
from django_mq.engine.percentiles import percentile
from django_mq.models import Rollup
from django_mq.rollups.duty import sum_up
from django_mq.stores.registry import shared_store
from tests.admin.browser import browsing, log_in
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

CHARTS = f"{list_of('queue')}charts/"
SCRIPT = "<script>document.title = 'broken in'</script>"


def past(length: timedelta, begins_at: datetime, queue: str, type_: str, *, accepted: int, failed: int) -> None:
    """Write a step of a queue, and the same of all queues."""
    spans = {"waits": as_text(histogram_of([2.0] * accepted)), "runs": as_text(histogram_of([1.0] * accepted))}
    sums = {"wait_seconds": 2.0 * accepted, "run_seconds": 1.0 * accepted, "ready": 7, "claimed": 3}
    step = {"seconds": int(length.total_seconds()), "minutes": int(length / timedelta(minutes=1))}
    counts = {"arrived": accepted, "accepted": accepted, "failed": failed, "dead": failed}
    for name, kind in ((queue, type_), ("", "")):
        Rollup.objects.create(queue_name=name, type=kind, begins_at=begins_at, **step, **counts, **spans, **sums)


def running() -> datetime:
    return timezone.now().astimezone(UTC).replace(second=0, microsecond=0)


@pytest.mark.parametrize("span", ["hour", "day", "week", "month"])
def test_a_span_has_the_steps_that_are_kept_for_it(site: str, browse: Client, make: Make, span: str) -> None:
    length, step = {"hour": (1, 1), "day": (24, 10), "week": (168, 60), "month": (720, 360)}[span]
    make.queue()
    stored = timedelta(minutes=min(step, 60))
    begin = running() - (running() - datetime(2020, 1, 1, tzinfo=UTC)) % stored - stored
    past(stored, begin, "orders", "shop.send", accepted=120, failed=60)
    if span != "hour":
        past(timedelta(minutes=1), running() - timedelta(minutes=1), "orders", "shop.send", accepted=2, failed=0)

    page = browse.get(CHARTS, {"span": span, "queue": "orders", "beside": "yesterday"})

    points = page.context["past"].points
    assert len(points) == length * 60 // step
    assert points[1].time - points[0].time == timedelta(minutes=step)
    assert sum(point.dead or 0 for point in points) == 60
    assert [chart.title for chart in page.context["charts"]][-1] == "Held by type, 95 %"


def test_the_times_of_a_type_stand_beside_those_of_the_day_before(site: str, browse: Client, make: Make) -> None:
    make.queue()
    minute = running() - timedelta(minutes=2)
    past(timedelta(minutes=1), minute, "orders", "old", accepted=30, failed=0)
    past(timedelta(minutes=1), minute - timedelta(days=1), "orders", "old", accepted=30, failed=0)
    past(timedelta(minutes=1), minute - timedelta(minutes=1), "mails", "new", accepted=30, failed=0)

    charts = browse.get(CHARTS, {"beside": "yesterday"}).context["charts"]

    lines = {line["label"]: line for line in json.loads(charts[-1].data)["lines"]}
    now, before = lines["old"]["values"], lines["old"]["before"]
    assert [text != "-" for text in before] == [text != "-" for text in now]
    assert sum(text != "-" for text in before) == 1
    assert set(lines["new"]["before"]) <= {"-"}


def test_figures_lead_to_the_messages_of_their_step(site: str, browse: Client, make: Make) -> None:
    make.queue()
    minute = running() - timedelta(minutes=2)
    past(timedelta(minutes=1), minute, "orders", SCRIPT, accepted=30, failed=6)

    page = browse.get(CHARTS, {"queue": "orders"})

    text = page.content.decode()
    (row,) = [row for row in page.context["rows"] if row["rates"][1] == "0.5/s"]
    assert browse.get(row["address"]).status_code == 200
    assert f"since={minute:%Y-%m-%d}" in row["address"]
    data = json.loads(page.context["charts"][0].data)
    assert data["address"] == f"{list_of('history')}?queue=orders"
    assert len(data["times"]) == len(data["lines"][0]["values"]) == 60
    assert SCRIPT not in text


@pytest.mark.parametrize("queue", ["", "orders"])
def test_every_figure_of_the_page_is_that_of_a_plain_count_over_the_history(
    site: str, browse: Client, make: Make, queue: str
) -> None:
    make.queue()
    chance, begin = random.Random(7), running() - timedelta(minutes=3)
    ended, failed = [], []
    for _ in range(60):
        finished = begin + timedelta(seconds=chance.randrange(120))
        claimed = finished - timedelta(seconds=chance.random())
        ready = claimed - timedelta(seconds=10 * chance.random())
        given = {"queue_name": chance.choice(("orders", "mails")), "type": chance.choice(("a", "b"))}
        times = {"published_at": ready, "ready_at": ready, "claimed_at": claimed, "finished_at": finished}
        ended.append(make.history(outcome=chance.choice((1, 1, 6)), redelivered=False, **given, **times))
    for row in chance.sample(ended, 20):
        given = {"queue_name": row.queue_name, "type": row.type, "failed_at": row.finished_at, "number": 2}
        failed.append(make.attempt(**given))
    sum_up(shared_store(site), 1000)

    page = browse.get(CHARTS, {"queue": queue})

    ended = [row for row in ended if row.queue_name == (queue or row.queue_name)]
    failed = [row for row in failed if row.queue_name == (queue or row.queue_name)]
    points = {point.time: point for point in page.context["past"].points}
    for minute in (begin, begin + timedelta(minutes=1)):
        point, span = points[minute], (minute, minute + timedelta(minutes=1))
        mine = [row for row in ended if span[0] <= row.finished_at < span[1]]
        accepted = [row for row in mine if row.outcome == 1]
        waits = Counter((row.claimed_at - row.ready_at).total_seconds() for row in accepted)
        runs = Counter((row.finished_at - row.claimed_at).total_seconds() for row in accepted)
        attempts = sum(span[0] <= row.failed_at < span[1] for row in failed)
        arrived = sum(span[0] <= row.published_at < span[1] for row in ended)
        rates = (point.arrived, point.accepted, point.failed, point.redelivered)
        assert rates == pytest.approx([number / 60 for number in (arrived, len(accepted), attempts, attempts)])
        assert point.dead == len(mine) - len(accepted)
        for percent in (50, 95, 99):
            exact = percentile(waits, percent), percentile(runs, percent)
            shown = getattr(point, f"wait_p{percent}"), getattr(point, f"run_p{percent}")
            assert shown == pytest.approx(exact, rel=LARGEST_ERROR, abs=0.001)


def test_heat_maps_show_failures_by_type_and_waits_by_queue(site: str, browse: Client, make: Make) -> None:
    make.queue()
    ten = running() - timedelta(minutes=30)
    ten -= timedelta(minutes=ten.minute % 10)
    past(timedelta(minutes=10), ten, "orders", "shop.send", accepted=30, failed=6)

    (failed, waited) = browse.get(CHARTS).context["heats"]

    assert [(row.name, row.total, row.columns) for row in failed[2]] == [("shop.send", "6", 36)]
    assert [(row.name, row.total) for row in waited[2]] == [("orders", "2 s")]


def test_what_operators_did_to_the_queue_is_marked(
    site: str, browse: Client, make: Make, login_with: Callable[..., Client]
) -> None:
    make.queue()
    past(timedelta(minutes=1), running() - timedelta(minutes=1), "orders", "", accepted=1, failed=0)
    for name in ("orders", "mails"):
        write(new_act(of_site("operator"), "queue", "pause", about=name, sentence="Paused."), using=site)
    Act.objects.using(site).update(began_at=running() - timedelta(minutes=9))

    page = browse.get(CHARTS, {"queue": "orders"})
    without = login_with("view_queue").get(CHARTS, {"queue": "orders"})

    assert without.context["happened"] == []
    chart = page.context["charts"][0]
    assert [mark.label for _place, mark in chart.marks] == ["orders: Paused."]
    assert [text.partition(": ")[2] for text in page.context["happened"]] == ["orders: Paused."]


def test_without_the_permission_to_view_the_history_nothing_leads_there(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    make.queue()
    past(timedelta(minutes=1), running() - timedelta(minutes=2), "orders", "shop.send", accepted=30, failed=6)

    page = login_with("view_queue").get(CHARTS)

    assert {row["address"] for row in page.context["rows"]} == {""}
    assert list_of("history") not in page.content.decode()


def test_charts_take_the_permission_to_view_queues(site: str, login_with: Callable[..., Client]) -> None:
    assert login_with("view_message").get(CHARTS).status_code == 403


def test_an_unknown_queue_has_no_charts(site: str, browse: Client, make: Make) -> None:
    make.queue()

    assert browse.get(CHARTS, {"queue": "nowhere"}).status_code == 404
    assert browse.get(CHARTS, {"span": "x", "until": "x", "beside": "x"}).status_code == 200


@pytest.mark.parametrize(
    ("begin", "step", "steps", "labels"),
    [
        ((2026, 3, 2, 8, 7), timedelta(minutes=1), 60, ["9:15 a.m.", "9:30 a.m.", "9:45 a.m.", "10 a.m."]),
        ((2026, 3, 2, 4, 0), timedelta(minutes=10), 36, ["6 a.m.", "8 a.m.", "10 a.m."]),
        ((2026, 3, 28, 8, 0), timedelta(minutes=10), 144, ["noon", "6 p.m.", "midnight", "6 a.m."]),
        ((2026, 3, 25, 9, 0), timedelta(hours=1), 168, ["Fri 27", "Sun 29", "Tue 31"]),
        ((2026, 3, 2, 6, 0), timedelta(hours=6), 120, ["Sun 8", "Sun 15", "Sun 22", "Sun 29"]),
    ],
)
def test_an_axis_is_labelled_at_round_times_of_the_site(
    begin: tuple[int, ...], step: timedelta, steps: int, labels: list[str]
) -> None:
    first = datetime(*begin, tzinfo=UTC)  # type: ignore[misc,arg-type]

    with timezone.override(ZoneInfo("Europe/Berlin")):
        ticks = Axis([first + step * number for number in range(steps)], step).ticks

    assert [label for _place, label in ticks] == labels


@pytest.mark.django_db(transaction=True)
def test_a_click_opens_the_messages_of_a_step_and_a_drawn_range_the_span_that_ends_with_it(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    make.queue()
    minute = running() - timedelta(minutes=1)
    past(timedelta(minutes=1), minute, "orders", SCRIPT, accepted=1, failed=0)
    for late in (30, 90):
        make.history(type=SCRIPT, finished_at=minute + timedelta(seconds=late))

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(f"{CHARTS}?queue=orders&beside=week")
        plot = page.locator(".mq-plot").first
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        end, middle = box["x"] + box["width"] - 1, box["y"] + 60
        page.mouse.move(end, middle)
        expect(page.locator(".mq-tip")).to_contain_text("finished: 0.0167/s")
        page.mouse.down()
        page.mouse.up()
        expect(page.locator("#result_list tbody tr")).to_have_count(1)
        page.go_back()
        page.mouse.move(end, middle)
        page.mouse.down()
        page.mouse.move(end - box["width"] / 3, middle)
        expect(page.locator(".mq-drawn-range")).to_have_count(1)
        page.mouse.up()
        page.wait_for_url("**/charts/?queue=orders&span=hour&beside=week&until=*")
        expect(page.locator(".mq-plot").first).to_be_visible()


@pytest.mark.parametrize(
    ("values", "end"),
    [([], 0), ([0.0] * 9 + [5.0], 5), ([1.0] * 60 + [2.5], 2.5), ([1.0] * 60 + [90.0], 1), ([3.0], 3)],
)
def test_a_single_spike_does_not_flatten_the_scale(values: list[float], end: float) -> None:
    assert usual_end(values) == end
