"""Minutes that are over are summed up by tenant, as a count over the history and the attempts has them."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from django_mq.engine import tenants
from django_mq.engine.histograms import histogram_of, merged
from django_mq.engine.rollups import HOUR, SIX_HOURS, TEN_MINUTES, Figures, begin_of
from django_mq.engine.tenants import ALL_QUEUES, KEPT, TenantRow, with_few_tenants
from django_mq.models import Attempt, History, Message, Queue, SearchKey, TenantStep
from django_mq.rollups.duty import sum_up as roll_up
from django_mq.tenants.duty import prune, sum_up
from django_mq.tenants.figures import SPANS, top_tenants
from tests.stores.builders import declare, pass_time, publish
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.stores.base import Store

pytestmark = ON_DATABASES
QUEUES = ("orders", "mails")


@pytest.fixture(autouse=True)
def declared(store: Store, settings: Settings) -> None:
    """Two queues have the key that names the tenants, one has not; it is half past a whole hour."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "TENANT_KEY": "tenant"}
    for name in (*QUEUES, "plain"):
        declare(store, name)
    Queue.objects.using(store.alias).filter(name__in=QUEUES).update(other_options={"search": "order tenant"})
    hour = (datetime.now(UTC)).replace(minute=30, second=30, microsecond=0)
    store.database.clock_offset = hour - datetime.now(UTC)


def now_of(store: Store) -> datetime:
    return datetime.now(UTC) + store.database.clock_offset


def a_past(store: Store, *, number: int, tenants: Callable[[random.Random], str], seed: int = 1) -> datetime:
    """Write messages that ended or failed in the minute before this one; return its begin."""
    chance, begin = random.Random(seed), begin_of(now_of(store), timedelta(minutes=1)) - timedelta(minutes=1)
    rows, keys, failed = [], [], []
    for _ in range(number):
        finished = begin + timedelta(seconds=chance.random() * 59)
        claimed = finished - timedelta(seconds=chance.choice((0.001, 0.5, 3)))
        ready = claimed - timedelta(seconds=2 ** chance.uniform(-8, 8))
        row = History(
            message_id=uuid4(),
            queue_name=chance.choice((*QUEUES, "plain")),
            correlation_id=str(uuid4()),
            priority=4,
            outcome=chance.choice((1, 1, 1, 1, 2, 6)),
            attempts=0,
            published_at=ready,
            ready_at=ready,
            claimed_at=claimed,
            finished_at=finished,
        )
        rows.append(row)
        if chance.random() < 0.9:
            keys.append(SearchKey(message_id=row.message_id, name="tenant", value=tenants(chance)))
        keys.append(SearchKey(message_id=row.message_id, name="order", value="4711"))
        if chance.random() < 0.3:
            # Celery's pool processes know the id of the task only.
            known = (
                {"message_id": row.message_id} if chance.random() < 0.5 else {"correlation_id": row.correlation_id}
            )
            failed.append(Attempt(**known, queue_name=row.queue_name, number=1, failed_at=finished, error="E"))
    History.objects.using(store.alias).bulk_create(rows, 500)
    SearchKey.objects.using(store.alias).bulk_create(keys, 500)
    Attempt.objects.using(store.alias).bulk_create(failed, 500)
    return begin


def counted(store: Store, begin: datetime, end: datetime) -> dict[tuple[str, TenantRow, str], Figures]:
    """Count what ended and failed in a span, row by row."""
    found: defaultdict[tuple[str, TenantRow, str], Figures] = defaultdict(Figures)
    tenant = dict(SearchKey.objects.using(store.alias).filter(name="tenant").values_list("message_id", "value"))

    def add(queue: str, message_id: Any, figures: Figures) -> None:
        if figures == Figures():
            return
        name = tenant.get(message_id, "")
        if not name:
            figures.waits = {}  # only tenants have a histogram
        for each in {queue, ALL_QUEUES} if queue in QUEUES else ():
            found[each, TenantRow.TENANT if name else TenantRow.NAMELESS, name].add(figures, beside=True)

    of_task = {}
    for row in History.objects.using(store.alias):
        of_task[row.correlation_id] = row.message_id
        if not begin <= row.finished_at < end:
            continue
        figures = Figures(accepted=int(row.outcome == 1), dead=int(row.outcome == 6))
        if row.outcome == 1:
            wait, run = row.claimed_at - row.ready_at, row.finished_at - row.claimed_at
            figures.wait_seconds, figures.run_seconds = wait.total_seconds(), run.total_seconds()
            figures.waits = histogram_of([wait.total_seconds()])
        add(row.queue_name, row.message_id, figures)
    for attempt in Attempt.objects.using(store.alias).filter(failed_at__gte=begin, failed_at__lt=end):
        message_id = attempt.message_id or of_task.get(attempt.correlation_id)
        add(attempt.queue_name, message_id, Figures(failed=1))
    return dict(found)


def written(store: Store, seconds: int, begin: datetime) -> dict[tuple[str, TenantRow, str], Figures]:
    rows = TenantStep.objects.using(store.alias).filter(seconds=seconds, begins_at=begin, kind__gt=0)
    names = ("accepted", "failed", "dead", "wait_seconds", "run_seconds")
    return {
        (row.queue_name, TenantRow(row.kind), row.tenant): Figures(
            **{name: getattr(row, name) for name in names}, waits=merged([row.waits])
        )
        for row in rows
    }


def assert_same(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for key, figures in expected.items():
        for name in ("accepted", "failed", "dead", "waits"):
            assert getattr(found[key], name) == getattr(figures, name), (key, name)
        for name in ("wait_seconds", "run_seconds"):
            assert getattr(found[key], name) == pytest.approx(getattr(figures, name), abs=0.01), (key, name)


def test_the_figures_agree_with_a_count_in_minutes_and_longer_steps(store: Store) -> None:
    names = ("acme", "Acme", "größe", "<b>bold</b>", "'; DROP TABLE x; --", "%(key)s {now}", "x" * 255)
    minute = a_past(store, number=300, tenants=lambda chance: chance.choice(names))
    roll_up(store, 1000)

    assert sum_up(store, 1000) == {"summed_up": 10}
    assert sum_up(store, 1000) == {"summed_up": 0}

    expected = counted(store, minute, minute + timedelta(minutes=1))
    assert len(expected) == 3 * (len(names) + 1)
    assert_same(written(store, 60, minute), expected)
    # A row that is late.
    again = a_past(store, number=30, tenants=lambda _: "late", seed=2)
    pass_time(store, 300)
    roll_up(store, 1000)
    sum_up(store, 1000)
    expected = counted(store, minute, minute + timedelta(minutes=1))
    assert again == minute
    assert any(key[2] == "late" for key in expected)
    assert_same(written(store, 60, minute), expected)
    pass_time(store, 7 * 3600)
    roll_up(store, 1000)
    sum_up(store, 1000)
    for step in (TEN_MINUTES, HOUR, SIX_HOURS):
        assert_same(written(store, int(step.total_seconds()), begin_of(minute, step)), expected)


def test_what_was_before_a_gap_is_in_the_longer_steps(store: Store) -> None:
    minute = a_past(store, number=60, tenants=lambda chance: chance.choice("ab"))
    for seconds in (0, 11 * 3600):
        pass_time(store, seconds)
        roll_up(store, 1000)
        sum_up(store, 1000)

    expected = counted(store, minute, minute + timedelta(minutes=1))
    for step in (TEN_MINUTES, HOUR, SIX_HOURS):
        assert_same(written(store, int(step.total_seconds()), begin_of(minute, step)), expected)


def test_of_a_busy_minute_a_sample_is_counted_and_the_page_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "MOST_COUNTED", 300)
    a_past(store, number=1400, tenants=lambda chance: chance.choice(("small", *["large"] * 9)))
    roll_up(store, 1000)
    sum_up(store, 1000)

    found = top_tenants("tenant", SPANS["hour"], using=store.alias)

    past = History.objects.using(store.alias).filter(outcome=1, queue_name__in=QUEUES)
    assert found.is_sample
    assert [row.tenant for row in found.tenants] == ["large", "small"]
    assert found.total.accepted == pytest.approx(past.count(), rel=0.3)


def test_of_many_tenants_the_first_by_each_measure_are_kept_and_the_rest_are_others(store: Store) -> None:
    minute = a_past(store, number=1500, tenants=lambda chance: f"t{int(600 * chance.random() ** 2)}")
    roll_up(store, 1000)

    sum_up(store, 1000)

    every = counted(store, minute, minute + timedelta(minutes=1))
    found = written(store, 60, minute)
    expected = with_few_tenants(every)
    assert (
        sum(queue == ALL_QUEUES for queue, _, _ in expected)
        < sum(queue == ALL_QUEUES for queue, _, _ in every) - 9
    )
    for queue in (ALL_QUEUES, *QUEUES):
        # Of equals at the border, each database chooses by its order of texts.
        assert [sum(f.accepted for key, f in step.items() if key[0] == queue) for step in (found, expected)] == [
            sum(f.accepted for key, f in every.items() if key[0] == queue)
        ] * 2
        for key in found.keys() - {(queue, TenantRow.OTHERS, "") for queue in (ALL_QUEUES, *QUEUES)}:
            assert (found[key].accepted, found[key].failed) == (every[key].accepted, every[key].failed)
        most = max(
            (f.accepted, key[2]) for key, f in every.items() if key[0] == queue and key[1] is TenantRow.TENANT
        )
        assert (queue, TenantRow.TENANT, most[1]) in found


@pytest.mark.parametrize("span", SPANS)
def test_the_first_tenants_are_those_of_a_count_and_all_adds_up(store: Store, span: str) -> None:
    names = [f"t{number}" for number in range(30)]
    weights = [number + 1 for number in range(30)]
    begin = a_past(store, number=400, tenants=lambda chance: chance.choices(names, weights)[0])
    for number in range(40):
        publish(store, QUEUES[number % 2])
    waiting = label(store)
    roll_up(store, 1000)
    sum_up(store, 1000)
    expected = counted(store, begin, begin + timedelta(minutes=1))

    for queue in (None, "orders"):
        for by in ("accepted", "failed", "dead", "run_seconds", "waiting"):
            found = top_tenants("tenant", SPANS[span], by=by, queue=queue, most=5, using=store.alias)
            mine = {
                key[2]: f for key, f in expected.items() if key[0] == (queue or "") and key[1] is TenantRow.TENANT
            }
            values = waiting[queue] if by == "waiting" else {name: getattr(f, by) for name, f in mine.items()}
            largest = sorted((value for value in values.values() if value), reverse=True)[:5]
            assert [getattr(row, by) for row in found.tenants] == pytest.approx(largest, abs=0.01)
            for row in found.tenants:
                figures = mine.get(row.tenant, Figures())
                assert (row.accepted, row.failed, row.dead) == (figures.accepted, figures.failed, figures.dead)
                assert row.waiting == waiting[queue].get(row.tenant, 0)
            parts = [*found.tenants, found.others, found.nameless]
            for name in ("accepted", "failed", "dead", "waiting"):
                assert sum(getattr(row, name) for row in parts) == getattr(found.total, name)
            assert not found.is_cut


def label(store: Store) -> dict[str | None, dict[str, int]]:
    """Give the live messages tenants; return how many each has."""
    found: dict[str | None, defaultdict[str, int]] = {
        None: defaultdict(int),
        **{q: defaultdict(int) for q in QUEUES},
    }
    for number, message in enumerate(Message.objects.using(store.alias).select_related("queue")):
        name = f"t{number % 7}"
        SearchKey.objects.using(store.alias).create(message_id=message.message_id, name="tenant", value=name)
        for queue in (None, message.queue.name):
            found[queue][name] += 1
    return {queue: dict(counts) for queue, counts in found.items()}


def test_figures_go_with_their_time_with_the_history_and_with_the_key(store: Store, settings: Settings) -> None:
    now = now_of(store)

    def ages() -> Iterator[tuple[int, str, float]]:
        rows = TenantStep.objects.using(store.alias).exclude(kind=0).order_by("seconds", "queue_name", "begins_at")
        for row in rows:
            yield row.seconds, row.queue_name, round((now - row.begins_at).total_seconds() / 86400, 1)

    Queue.objects.using(store.alias).update(history_days=30)
    Queue.objects.using(store.alias).filter(name="mails").update(history_days=0.5)
    for step, kept in KEPT.items():
        for age in (kept * 0.9, kept * 1.1):
            for queue in ("mails", "orders"):
                TenantStep.objects.using(store.alias).create(
                    seconds=int(step.total_seconds()), begins_at=now - age, queue_name=queue, kind=1, tenant="t"
                )

    assert prune(store, 100) == 10
    assert [queue for seconds, queue, _ in ages() if seconds == 21600] == ["orders"]

    sum_up(store, 1000)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "TENANT_KEY": "order"}
    sum_up(store, 1000)
    assert list(ages()) == []

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "TENANT_KEY": None}
    assert sum_up(store, 1000) == {"summed_up": 0}
