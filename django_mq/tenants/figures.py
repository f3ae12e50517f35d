"""The tenants with most messages, failures or time in a span: a few statements over what is summed up."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Sum

from django_mq.engine.histograms import merged, quantile
from django_mq.engine.rollups import HOUR, MINUTE, SIX_HOURS, begin_of
from django_mq.engine.tenants import ALL_QUEUES, KEPT, MOST, TenantRow
from django_mq.models import TenantStep
from django_mq.rollups.series import PATIENCE, Part, Span, running_minute, within
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.models import QuerySet

SPANS: Final = {
    span.name: span
    for span in (
        Span("hour", HOUR, MINUTE),
        Span("day", 24 * HOUR, HOUR),
        Span("week", 7 * 24 * HOUR, SIX_HOURS),
    )
}
#: What tenants can be sorted by; each is a field of a row.
MEASURES: Final = ("accepted", "waiting", "failed", "dead", "wait_p95", "run_seconds")
#: The columns that are added up.
SUMS: Final = ("accepted", "failed", "dead", "wait_seconds", "run_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFigures:
    """A tenant in a span, several together, or the messages without the key."""

    tenant: str = ""
    accepted: int = 0
    failed: int = 0
    dead: int = 0
    #: The time that accepted messages waited and were held, in all.
    wait_seconds: float = 0.0
    run_seconds: float = 0.0
    #: Of accepted messages; None without any, and for others.
    wait_p95: float | None = None
    #: What waits now; None if the tenant is among the others of that count.
    waiting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopTenants:
    """The first tenants of a span by a measure, and the rest."""

    tenants: list[TenantFigures]
    #: The other tenants, the messages without the key, and all together.
    others: TenantFigures
    nameless: TenantFigures
    total: TenantFigures
    begin: datetime
    #: The end of the newest known minute, None if there is none in the span.
    known_until: datetime | None
    #: When the waiting messages were counted.
    waiting_at: datetime | None
    #: Whether no worker has summed up for a while.
    is_late: bool
    #: Whether in some steps tenants were counted among the others, so that their own figures are too low.
    is_cut: bool
    #: Whether the figures of some steps are from a sample.
    is_sample: bool


def top_tenants(
    key: str, span: Span, *, by: str = "accepted", queue: str | None = None, most: int = 50, using: str
) -> TopTenants:
    """Return the first tenants of a queue, or of all, by one of ``MEASURES``."""
    now = running_minute(shared_store(using))
    rows = TenantStep.objects.using(using).order_by()
    marks = rows.filter(queue_name=ALL_QUEUES, kind=TenantRow.MARK, tenant=key)
    begin, parts = _covering(marks, span, now)
    known_until = parts[-1][-1] if parts else None
    waiting_at = marks.filter(seconds=0).values_list("begins_at", flat=True).first()
    of_queue = rows.filter(queue_name=queue or ALL_QUEUES)
    past = of_queue.filter(within(parts))
    waiting = of_queue.none() if waiting_at is None else of_queue.filter(seconds=0)
    by_kind = _by_kind(past, waiting, is_counted=waiting_at is not None)
    others = by_kind[TenantRow.OTHERS]
    missing = None if others.waiting or waiting_at is None else 0
    tenants = _first(past, waiting, by, most, missing)
    whole = _sum(by_kind.values())
    shown = _sum([*tenants, by_kind[TenantRow.NAMELESS]])
    return TopTenants(
        tenants=tenants,
        others=_sum([whole], less=shown),
        nameless=by_kind[TenantRow.NAMELESS],
        total=whole,
        begin=begin,
        known_until=known_until,
        waiting_at=waiting_at,
        is_late=known_until is None or now - known_until > PATIENCE,
        is_cut=any(getattr(others, name) for name in SUMS),
        is_sample=marks.filter(within(parts), every__gt=1).exists(),
    )


def _covering(marks: QuerySet[TenantStep], span: Span, now: datetime) -> tuple[datetime, list[Part]]:
    """Return where a span begins that ends with the newest known minute, and what covers it, long rows first."""
    last = marks.filter(seconds=60).order_by("-begins_at").values_list("begins_at", flat=True).first()
    end = now if last is None or now - last > span.length else last + MINUTE
    begin = first = begin_of(end - MINUTE, span.step) + span.step - span.length
    parts: list[Part] = []
    for length in reversed(KEPT):
        if length <= span.step:
            known = marks.filter(seconds=int(length.total_seconds()), begins_at__gte=first, begins_at__lt=end)
            newest = known.order_by("-begins_at").values_list("begins_at", flat=True).first()
            if newest is not None:
                parts.append((length, first, newest + length))
                first = newest + length
    return begin, parts


def _first(
    past: QuerySet[TenantStep], waiting: QuerySet[TenantStep], by: str, most: int, missing: int | None
) -> list[TenantFigures]:
    """Return the first tenants by a measure. ``missing`` is what waits of a tenant that was not counted."""
    past, waiting = past.filter(kind=TenantRow.TENANT), waiting.filter(kind=TenantRow.TENANT)
    if by == "waiting":
        names = list(waiting.order_by("-waiting", "tenant").values_list("tenant", flat=True)[:most])
    else:
        # The database has no percentiles: of those that waited longest in all, the highest ones.
        column, number = ("wait_seconds", MOST) if by == "wait_p95" else (by, most)
        summed = past.values("tenant").annotate(all_first=Sum(column)).filter(all_first__gt=0)
        names = list(summed.order_by("-all_first", "tenant").values_list("tenant", flat=True)[:number])
    counts = dict(waiting.filter(tenant__in=names).values_list("tenant", "waiting"))
    sums: dict[str, list[Any]] = {name: [0] * len(SUMS) for name in names}
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for name, waits, *values in past.filter(tenant__in=names).values_list("tenant", "waits", *SUMS):
        sums[name] = [before + value for before, value in zip(sums[name], values, strict=True)]
        texts[name].append(waits)
    found = [
        TenantFigures(
            tenant=name,
            **dict(zip(SUMS, sums[name], strict=True)),
            wait_p95=quantile(merged(texts[name]), 95),
            waiting=counts.get(name, missing),
        )
        for name in names
    ]
    return sorted(found, key=lambda row: -(getattr(row, by) or 0))[:most]


def _by_kind(
    past: QuerySet[TenantStep], waiting: QuerySet[TenantStep], *, is_counted: bool
) -> dict[TenantRow, TenantFigures]:
    """Return the sums of all tenants that are kept, of the others, and of the messages without the key."""
    kinds = (TenantRow.TENANT, TenantRow.OTHERS, TenantRow.NAMELESS)
    counts = dict(waiting.filter(kind__in=kinds).values_list("kind").annotate(Sum("waiting")))
    summed = past.filter(kind__in=kinds).values_list("kind").annotate(*map(Sum, SUMS))
    sums = {kind: dict(zip(SUMS, values, strict=True)) for kind, *values in summed}
    return {
        kind: TenantFigures(**sums.get(kind, {}), waiting=counts.get(kind, 0) if is_counted else None)
        for kind in kinds
    }


def _sum(every: Iterable[TenantFigures], *, less: TenantFigures | None = None) -> TenantFigures:
    """Return some figures together, less others."""
    rows = list(every)
    found: dict[str, Any] = {
        name: max(0, sum(getattr(row, name) for row in rows) - (getattr(less, name) if less else 0))
        for name in SUMS
    }
    known = [row.waiting for row in rows if row.waiting is not None]
    waiting = max(0, sum(known) - ((less and less.waiting) or 0)) if known else None
    return TenantFigures(**found, waiting=waiting)
