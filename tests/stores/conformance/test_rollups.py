"""Minutes that are over are summed up: what arrived, how it ended, how long it took, by queue and type."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.histograms import histogram_of, merged, quantile
from django_mq.engine.rollups import SIX_HOURS, Figures, added_up, begin_of
from django_mq.models import Attempt, History, Rollup
from django_mq.rollups.duty import prune, sum_up
from django_mq.rollups.series import running_minute
from django_mq.stores.records import Failure, Settlement
from tests.stores.builders import (
    claim,
    declare,
    lose_worker,
    open_session,
    pass_time,
    publish,
    settle,
    verdict,
)
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = ON_DATABASES

HALF = datetime.now(UTC).replace(second=30, microsecond=0)


@pytest.fixture(autouse=True)
def half_past(request: pytest.FixtureRequest, store: Store) -> None:
    """Begin in the middle of a minute."""
    store.database.clock_offset = HALF - datetime.now(UTC)


def roll_up(store: Store) -> int:
    return sum_up(store, 1000)["summed_up"]


def summed(store: Store, queue: str = "orders", *, seconds: int = 60) -> list[Rollup]:
    rows = Rollup.objects.using(store.alias).filter(seconds=seconds, queue_name=queue)
    return list(rows.order_by("begins_at", "type"))


def test_a_minute_that_is_over_is_summed_up_once(store: Store, orders: str, session: int) -> None:
    roll_up(store)
    pass_time(store, 120)
    roll_up(store)
    pass_time(store, 60)
    for _ in range(3):
        publish(store)
    first, second = claim(store, session, credit=2)
    settle(store, session, first, Verdict.ACCEPT)
    store.settlements.settle(
        session, [Settlement(second.id, second.claim, Verdict.RELEASE, counted=True, failure=Failure("E"))]
    )
    pass_time(store, 60)

    assert roll_up(store) >= 1
    assert roll_up(store) == 0
    (row,) = summed(store)
    assert (row.arrived, row.accepted, row.failed, row.expired, row.removed) == (3, 1, 1, 0, 0)
    assert row.redelivered == 0


def test_the_minute_that_runs_is_the_databases_whatever_the_web_servers_clock_says(store: Store) -> None:
    pass_time(store, 3600)
    offset = store.database.clock_offset

    earlier = datetime.now(UTC) + offset
    running = running_minute(store)

    assert earlier.replace(second=0, microsecond=0) <= running <= datetime.now(UTC) + offset


def test_the_minute_that_runs_is_left_alone(store: Store, orders: str, session: int) -> None:
    publish(store)
    settle(store, session, *claim(store, session), Verdict.ACCEPT)

    roll_up(store)

    assert summed(store) == []
    markers = summed(store, "")
    assert len(markers) == 10
    assert [marker.newest is None for marker in markers] == [True] * 9 + [False]


def test_spans_are_those_of_accepted_messages(store: Store, orders: str, session: int) -> None:
    publish(store)
    pass_time(store, 14)
    (message,) = claim(store, session)
    pass_time(store, 1)
    settle(store, session, message, Verdict.ACCEPT)
    pass_time(store, 60)

    roll_up(store)

    (row,) = summed(store)
    waits, runs = merged([row.waits]), merged([row.runs])
    assert quantile(waits, 50) == quantile(waits, 95) == pytest.approx(14, abs=6)
    assert quantile(runs, 50) == quantile(runs, 95) == pytest.approx(1, abs=6)
    assert (row.wait_seconds, row.run_seconds) == (pytest.approx(14, abs=6), pytest.approx(1, abs=6))


def test_messages_that_ended_otherwise_have_no_span(store: Store, orders: str) -> None:
    row_id = publish(store)
    store.operations.cancel([row_id])
    pass_time(store, 60)

    roll_up(store)

    (row,) = summed(store)
    assert (row.accepted, row.removed, row.waits, row.runs) == (0, 1, "{}", "{}")


def test_each_queue_has_its_own_row(store: Store, orders: str, session: int) -> None:
    declare(store, "mails")
    for name in (orders, "mails"):
        store.operations.cancel([publish(store, name)])
    pass_time(store, 60)

    roll_up(store)

    assert [len(summed(store, name)) for name in (orders, "mails", "bills")] == [1, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_redeliveries_are_those_of_a_plain_count(store: Store, seed: int) -> None:
    """Deliveries that were not the first, ended well, in a failure, or alone with their worker."""
    declare(store, max_attempts=0)
    fates = ["accept"] * 10 + ["fail"] * 10 + ["release"] * 6 + ["die"] * 6
    random.Random(seed).shuffle(fates)
    publish(store)
    expected, failed, suspects = 0, Counter[int](), set[int]()
    for fate in fates:
        session = open_session(store)
        publish(store)
        [message] = claim(store, session, credit=1)
        number = message.id
        if fate == "accept":
            expected += message.redelivered
            settle(store, session, message, Verdict.ACCEPT)
        elif fate == "fail":
            failed[number] += 1
            expected += failed[number] > 1
            suspects.discard(number)
            store.settlements.settle(
                session, [verdict(message, Verdict.RELEASE, counted=True, failure=Failure("E"))]
            )
        elif fate == "release":
            settle(store, session, message, Verdict.RELEASE)
        else:
            failed[number] += number in suspects
            expected += number in suspects
            suspects.add(number)
            lose_worker(store, session)
    pass_time(store, 60)

    roll_up(store)

    assert expected > 5
    assert sum(row.redelivered for row in summed(store)) == expected


def a_past(store: Store, begin: datetime, *, seconds: int, number: int, chance: random.Random) -> None:
    """Write finished messages and failed attempts of a span."""
    rows, failed = [], []
    for _ in range(number):
        finished = begin + timedelta(seconds=chance.random() * seconds)
        wait, run = 2 ** chance.uniform(-12, 12), chance.choice((0.001, 0.002, 0.064, chance.random() * 3))
        claimed = finished - timedelta(seconds=run)
        rows.append(
            History(
                message_id=uuid4(),
                queue_name=chance.choice(("orders", "mails", "Orders")),
                type=chance.choice(("", "shop.send", "Shop.send", "größe")),
                priority=4,
                outcome=chance.choice((1, 1, 1, 1, 2, 3, 6, 7)),
                attempts=0,
                published_at=claimed - timedelta(seconds=wait),
                ready_at=claimed - timedelta(seconds=wait),
                claimed_at=chance.choice((claimed, claimed, None)),
                finished_at=finished,
                redelivered=chance.choice((True, False)),
            )
        )
        named = {"queue_name": rows[-1].queue_name, "type": rows[-1].type, "error": "E"}
        failed.append(Attempt(message_id=uuid4(), number=chance.choice((1, 2)), failed_at=finished, **named))
    History.objects.using(store.alias).bulk_create(rows, 500)
    Attempt.objects.using(store.alias).bulk_create(failed[::3], 500)


def counted(store: Store, begin: datetime, end: datetime) -> dict[tuple[str, str], Figures]:
    """Count what ended in a span, row by row."""
    found: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)
    span = {"finished_at__gte": begin, "finished_at__lt": end}
    for row in History.objects.using(store.alias).filter(**span):
        figures = found[row.queue_name, row.type]
        kind = {1: "accepted", 2: "expired", 6: "dead"}.get(row.outcome, "removed")
        setattr(figures, kind, getattr(figures, kind) + 1)
        figures.redelivered += row.claimed_at is not None and bool(row.redelivered)
        if row.outcome == 1 and row.claimed_at is not None:
            wait, run = row.claimed_at - row.ready_at, row.finished_at - row.claimed_at
            one = Figures(waits=histogram_of([wait.total_seconds()]), runs=histogram_of([run.total_seconds()]))
            figures.add(one, beside=True)
    for attempt in Attempt.objects.using(store.alias).filter(failed_at__gte=begin, failed_at__lt=end):
        figures = found[attempt.queue_name, attempt.type]
        figures.failed += 1
        figures.redelivered += attempt.number > 1
    return found


def assert_agrees(store: Store, begin: datetime, seconds: int) -> None:
    """Compare the figures of a step with a count."""
    rows = Rollup.objects.using(store.alias).filter(seconds=seconds, begins_at=begin)
    expected = counted(store, begin, begin + timedelta(seconds=seconds))
    expected["", ""] = added_up(expected.values(), beside=True)
    assert {(row.queue_name, row.type) for row in rows} >= {*expected}
    for row in rows:
        figures = expected.get((row.queue_name, row.type), Figures())
        for name in ("accepted", "expired", "removed", "dead", "failed", "redelivered"):
            assert getattr(row, name) == getattr(figures, name), (row, name)
        assert merged([row.waits]) == figures.waits
        assert merged([row.runs]) == figures.runs


def test_the_figures_agree_with_a_count_over_the_history_also_in_longer_steps_before_a_gap(store: Store) -> None:
    chance = random.Random(5)
    hour = (datetime.now(UTC) + store.database.clock_offset).replace(minute=0, second=0, microsecond=0)
    store.database.clock_offset += hour - datetime.now(UTC) - store.database.clock_offset
    pass_time(store, 3600 - 590)
    a_past(store, hour + timedelta(minutes=50), seconds=600, number=400, chance=chance)
    pass_time(store, 600)

    assert roll_up(store) == 10

    for minute in range(50, 60):
        assert_agrees(store, hour + timedelta(minutes=minute), 60)
    assert_agrees(store, hour + timedelta(minutes=50), 600)
    assert_agrees(store, hour, 3600)
    [whole] = summed(store, "", seconds=3600)
    assert whole.minutes == 10

    pass_time(store, 7 * 3600)
    roll_up(store)

    assert_agrees(store, begin_of(hour, SIX_HOURS), 6 * 3600)


def test_rows_that_are_late_are_counted_in_their_minute_and_in_the_longer_steps(store: Store) -> None:
    chance = random.Random(6)
    hour = (datetime.now(UTC) + store.database.clock_offset).replace(minute=0, second=0, microsecond=0)
    store.database.clock_offset += hour - datetime.now(UTC) - store.database.clock_offset
    minute = hour + timedelta(minutes=9)
    a_past(store, minute, seconds=60, number=30, chance=chance)
    pass_time(store, 610)
    assert roll_up(store) == 10
    a_past(store, minute, seconds=60, number=30, chance=chance)

    again = []
    for _ in range(6):
        again.append(sum_up(store, 1000)["summed_up_again"])
        pass_time(store, 60)

    assert sum(again) == 1
    assert_agrees(store, minute, 60)
    assert_agrees(store, hour, 600)


def test_depths_are_those_at_the_end_of_the_newest_minute(store: Store, orders: str, session: int) -> None:
    for _ in range(3):
        publish(store)
    claim(store, session, credit=1)
    pass_time(store, 60)

    roll_up(store)

    assert [(row.ready, row.claimed) for row in summed(store)[-1:]] == [(2, 1)]
    assert [(row.ready, row.claimed) for row in summed(store, "")[-1:]] == [(2, 1)]


def test_what_dies_in_its_queue_is_counted_as_dead(store: Store, orders: str, session: int) -> None:
    publish(store)
    [message] = claim(store, session)
    failed = verdict(message, Verdict.DEAD, counted=True, failure=Failure("E"))
    store.settlements.settle(session, [failed])
    pass_time(store, 60)

    roll_up(store)

    assert [(row.failed, row.dead) for row in summed(store)] == [(1, 1)]


def test_steps_are_deleted_when_longer_ones_tell_of_their_time(store: Store) -> None:
    now = datetime.now(UTC)
    ages = {60: timedelta(days=3), 600: timedelta(days=16), 3600: timedelta(days=32), 21600: timedelta(days=63)}
    for seconds, age in ages.items():
        for begins_at in (now - age, now - age / 2):
            Rollup.objects.using(store.alias).create(seconds=seconds, begins_at=begins_at, queue_name="")

    assert prune(store, 100) == 4

    assert not History.objects.using(store.alias).exists()
    assert Rollup.objects.using(store.alias).count() == 4
