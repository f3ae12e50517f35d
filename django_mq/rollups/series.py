"""The past in steps, as charts and rates read it: a few statements over the figures that workers have summed up.

A minute that no worker has summed up is unknown. It is not a minute without traffic.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django.db.models import Q, Sum

from django_mq.engine.histograms import merged, quantile
from django_mq.engine.rollups import HOUR, KEPT, MINUTE, SIX_HOURS, TEN_MINUTES, begin_of
from django_mq.models import Rollup
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

#: Delay in summing up after which the page warns; until then the charts end with the last known minute.
PATIENCE = timedelta(minutes=5)
#: How many minutes recent rates cover, and how old these may be.
RECENT_MINUTES = 5
RECENT = timedelta(minutes=10)


#: A length of rows, and the begin and the end of what they cover.
Part: TypeAlias = tuple[timedelta, datetime, datetime]


@dataclass(frozen=True, slots=True)
class Span:
    """How far a chart looks back, and its step."""

    name: str
    length: timedelta
    step: timedelta


SPANS: Final = {
    span.name: span
    for span in (
        Span("hour", HOUR, MINUTE),
        Span("day", timedelta(days=1), TEN_MINUTES),
        Span("week", timedelta(days=7), HOUR),
        Span("month", timedelta(days=30), SIX_HOURS),
    )
}
#: The spans of which every finished message can be read, one by one.
SHORT_SPANS: Final = {name: SPANS[name] for name in ("hour", "day")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step: rates in messages a second, None if no minute is known; waits and runs in seconds, None if no
    message was accepted. The percentiles are those of all messages of the step, off by 4.4 percent at most.
    """

    time: datetime
    arrived: float | None = None
    accepted: float | None = None
    failed: float | None = None
    redelivered: float | None = None
    #: Messages that died.
    dead: int | None = None
    #: The most messages that were ready and in flight at the end of a minute.
    ready: int | None = None
    claimed: int | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    wait_p99: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The steps of a span, and the end of the newest known minute."""

    points: list[Point]
    step: timedelta
    known_until: datetime | None
    #: Whether minutes are missing at the end: no worker has summed them up.
    late: bool
    #: Which lengths of rows cover which part of it: long ones, and short ones for the step that is not over.
    parts: tuple[Part, ...]

    @property
    def begin(self) -> datetime:
        return self.points[0].time

    @property
    def end(self) -> datetime:
        return self.points[-1].time + self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages a second over the newest minutes."""

    arrived: float = 0.0
    accepted: float = 0.0
    failed: float = 0.0
    #: Ends of deliveries that were not the first.
    redelivered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """How long the accepted messages of the newest minutes waited and ran, in seconds; None without any."""

    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


@dataclass(frozen=True, slots=True)
class Recent:
    """The rates of all queues over the newest known minutes, by queue."""

    #: When each of these minutes began, the newest first.
    minutes: Sequence[datetime] = ()
    rates: dict[str, Rates] = field(default_factory=dict)

    def of(self, queue: str) -> Rates | None:
        """Return the rates of a queue, zero without traffic; None if no minute is known."""
        return self.rates.get(queue, Rates()) if self.minutes else None


#: The queue's name in the rows that say that a step has been summed up.
SUMMED_UP = ""
COUNTED = ("arrived", "accepted", "failed", "redelivered")
TEXTS = ("waits", "runs")
#: The columns that points are made of.
COLUMNS = ("begins_at", "queue_name", "type", "minutes", *COUNTED, "dead", "ready", "claimed", *TEXTS)


def series(span: Span, *, queue: str | None = None, until: datetime | None = None, using: str) -> Series:
    """Return one point per step, of one queue or of all, up to the newest known minute, or up to a time.

    If the newest known minute is too old, return them up to the last whole minute by the database's clock. The
    steps of a time from which only longer ones are kept are longer.
    """
    now = running_minute(shared_store(using))
    end = now if until is None else min(until, now)
    step = kept_step(span, now, end)
    first = begin_of(end - PATIENCE, step) - span.length
    parts, rows = _parts(first, end, step, queue, using)
    known_until = parts[-1][-1] if parts else None
    late = until is None and (known_until is None or now - known_until > PATIENCE)
    last = end if known_until is None or late or until is not None else known_until
    begin = begin_of(last - timedelta.resolution, step) + step - span.length
    steps: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        steps[begin_of(row["begins_at"], step)].append(row)
    times = [begin + step * number for number in range(span.length // step)]
    return Series(
        points=[_point(time, steps[time], queue) for time in times],
        step=step,
        known_until=known_until,
        late=late,
        parts=tuple((length, max(start, begin), stop) for length, start, stop in parts if stop > begin),
    )


def kept_step(span: Span, now: datetime, end: datetime) -> timedelta:
    """Return the step of a span that ends then: its own, unless only longer ones are kept so long."""
    return max(span.step, _longest_needed(now - (end - span.length)))


def _longest_needed(age: timedelta) -> timedelta:
    return next((step for step, kept in KEPT.items() if age <= kept), SIX_HOURS)


def _parts(
    first: datetime, end: datetime, step: timedelta, queue: str | None, using: str
) -> tuple[list[Part], list[dict[str, Any]]]:
    """Return what covers a span, and its rows: the longest that fit the step, and shorter ones after them."""
    wanted = Q(queue_name__in={SUMMED_UP, queue or SUMMED_UP})
    parts, rows = [], []
    for length in reversed(KEPT):
        if length <= step:
            found = list(steps_of(length, first, end, using=using).filter(wanted).values(*COLUMNS))
            if found:
                parts.append((length, first, found[-1]["begins_at"] + length))
                first = parts[-1][-1]
            rows += found
    return parts, rows


def steps_of(length: timedelta, first: datetime, end: datetime, *, using: str) -> QuerySet[Rollup]:
    """Return the rows of a length within a span."""
    rows = Rollup.objects.using(using).filter(seconds=int(length.total_seconds()))
    return rows.filter(begins_at__gte=first, begins_at__lt=end).order_by("begins_at")


def recent_rates(*, using: str) -> Recent:
    """Return each queue's rates over the newest known minutes, unless they are too old."""
    minutes = _newest_minutes(using)
    sums = {name: Sum(name) for name in COUNTED}
    rows = _rows_of_queues(minutes, using).values("queue_name").annotate(**sums) if minutes else []
    return Recent(minutes, {row["queue_name"]: Rates(**_rates([row], len(minutes))) for row in rows})


def recent_spans(minutes: Sequence[datetime], *, using: str) -> dict[str, Spans]:
    """Return how long each queue's messages took in these minutes, by queue."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows_of_queues(minutes, using).values("queue_name", *TEXTS) if minutes else ():
        found[row["queue_name"]].append(row)
    return {queue: Spans(**_percentiles(rows, 50, 95)) for queue, rows in found.items()}


def _newest_minutes(using: str) -> list[datetime]:
    now = running_minute(shared_store(using))
    marks = steps_of(MINUTE, now - RECENT, now, using=using).filter(queue_name=SUMMED_UP).order_by("-begins_at")
    minutes = list(marks.values_list("begins_at", flat=True)[:RECENT_MINUTES])
    return minutes if minutes and now - minutes[0] - MINUTE <= PATIENCE else []


def _rows_of_queues(minutes: Collection[datetime], using: str) -> QuerySet[Rollup]:
    rows = Rollup.objects.using(using).filter(seconds=60, begins_at__in=minutes)
    return rows.exclude(queue_name=SUMMED_UP).order_by()


def summed_up_seconds(*, using: str) -> float | None:
    """Return the time in seconds since the end of the last summed-up minute, by the database's clock.

    None if there is none. A busy worker sums up a minute within seconds of its end.
    """
    marks = Rollup.objects.using(using).filter(seconds=60, queue_name=SUMMED_UP).order_by("-begins_at")
    newest = marks.values_list("begins_at", UTCNow()).first()
    return None if newest is None else max(0.0, (newest[1] - newest[0] - MINUTE).total_seconds())


def running_minute(store: Store) -> datetime:
    """Return the current minute by the database's clock, by which workers sum up."""
    now = datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())
    return now.replace(second=0, microsecond=0)


def _point(time: datetime, rows: Sequence[dict[str, Any]], queue: str | None) -> Point:
    minutes = sum(row["minutes"] for row in rows if row["queue_name"] == SUMMED_UP)
    wanted = [row for row in rows if row["queue_name"] == (queue or SUMMED_UP)]
    if not minutes and not wanted:
        return Point(time=time)
    return Point(
        time=time,
        dead=sum(row["dead"] for row in wanted),
        ready=_deepest(wanted, "ready"),
        claimed=_deepest(wanted, "claimed"),
        **_rates(wanted, minutes or 1),
        **_percentiles(wanted, 50, 95, 99),
    )


def _deepest(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Return the largest depth of a step: that of its types together."""
    depths: dict[datetime, int] = defaultdict(int)
    for row in rows:
        if row[name] is not None:
            depths[row["begins_at"]] += row[name]
    return max(depths.values(), default=None)


def _rates(rows: Sequence[Mapping[str, Any]], minutes: int) -> dict[str, float]:
    seconds = minutes * MINUTE.total_seconds()
    # A sum of the database's own is a Decimal on MariaDB.
    return {name: float(sum(row[name] for row in rows)) / seconds for name in COUNTED}


def _percentiles(rows: Sequence[Mapping[str, Any]], *percents: int) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, column in (("wait", "waits"), ("run", "runs")):
        histogram = merged(row[column] for row in rows)
        found |= {f"{name}_p{percent}": quantile(histogram, percent) for percent in percents}
    return found


#: The queues whose histograms are read: 30 days of 300 queues are 40,000 of them.
MOST_QUEUES = 40


def busiest_types(past: Series, *, queue: str | None = None, most: int = 5, using: str) -> list[str]:
    """Return the types that took the workers most time, the first one took most."""
    rows = _of_queue(_rows(past, using), queue)
    summed = rows.values("type").annotate(time=Sum("run_seconds"), number=Sum("accepted"))
    return list(summed.order_by("-time", "-number", "type").values_list("type", flat=True)[:most])


def held_by_type(
    past: Series, types: Collection[str], *, queue: str | None = None, using: str
) -> dict[str, list[float | None]]:
    """Return how long the messages of each of these types were held, 95 % of them, in seconds: one value per step.

    Of all queues, the ``MOST_QUEUES`` in which these types took most time are read.
    """
    rows = _of_queue(_rows(past, using), queue).filter(type__in=types)
    if queue is None:
        busy = rows.values("queue_name").annotate(time=Sum("run_seconds")).order_by("-time", "queue_name")
        rows = rows.filter(queue_name__in=list(busy.values_list("queue_name", flat=True)[:MOST_QUEUES]))
    texts: dict[tuple[str, datetime], list[str]] = defaultdict(list)
    for type_, begins_at, runs in rows.values_list("type", "begins_at", "runs"):
        texts[type_, begin_of(begins_at, past.step)].append(runs)
    return {
        type_: [quantile(merged(texts.get((type_, point.time), ())), 95) for point in past.points]
        for type_ in types
    }


def _rows(past: Series, using: str) -> QuerySet[Rollup]:
    """Return what covers a series, in no order."""
    return Rollup.objects.using(using).filter(within(past.parts)).order_by()


def within(parts: Iterable[Part]) -> Q:
    """Return the condition of the rows of these lengths and times."""
    covering = Q(pk__in=())
    for length, first, end in parts:
        covering |= Q(seconds=int(length.total_seconds()), begins_at__gte=first, begins_at__lt=end)
    return covering


def _of_queue(rows: QuerySet[Rollup], queue: str | None) -> QuerySet[Rollup]:
    return rows.exclude(queue_name=SUMMED_UP) if queue is None else rows.filter(queue_name=queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """A value for each row and step; None if nothing is known of it."""

    times: list[datetime]
    step: timedelta
    rows: list[tuple[str, list[float | None]]]


def failures_by_type(past: Series, *, queue: str | None = None, most: int = 20, using: str) -> HeatMap:
    """Return the failed attempts by type and step, of the types that failed most often."""
    rows = _of_queue(_rows(past, using).filter(failed__gt=0), queue)
    cells = _cells(rows, "type", ("failed",), past, most)
    known = {point.time for point in past.points if point.arrived is not None}
    return _heat_map(cells, past, lambda time, cell: cell[0] if cell else 0.0 if time in known else None)


def waits_by_queue(past: Series, *, most: int = 20, using: str) -> HeatMap:
    """Return the mean waits in seconds by queue and step, of the queues with the longest waits in all."""
    rows = _of_queue(_rows(past, using).filter(accepted__gt=0), None)
    cells = _cells(rows, "queue_name", ("wait_seconds", "accepted"), past, most)
    return _heat_map(cells, past, lambda _time, cell: cell[0] / cell[1] if cell and cell[1] else None)


#: Sums by name and step.
Cells: TypeAlias = dict[str, dict[datetime, list[float]]]


def _cells(rows: QuerySet[Rollup], by: str, columns: Sequence[str], past: Series, most: int) -> Cells:
    """Return the sums of columns by name and step, of the names with the largest sums of the first column."""
    first = rows.values(by).annotate(all_first=Sum(columns[0])).order_by("-all_first", by)
    cells: Cells = {name: {} for name in first.values_list(by, flat=True)[:most]}
    summed = rows.filter(**{f"{by}__in": cells}).values(by, "begins_at")
    sums = {f"all_{name}": Sum(name) for name in columns}
    for name, begins_at, *values in summed.annotate(**sums).values_list(by, "begins_at", *sums):
        cell = cells[name].setdefault(begin_of(begins_at, past.step), [0.0] * len(columns))
        cell[:] = [before + value for before, value in zip(cell, values, strict=True)]
    return cells


def _heat_map(
    cells: Cells, past: Series, value: Callable[[datetime, Sequence[float] | None], float | None]
) -> HeatMap:
    times = [point.time for point in past.points]
    rows = [(name, [value(time, found.get(time)) for time in times]) for name, found in cells.items()]
    return HeatMap(times=times, step=past.step, rows=rows)
