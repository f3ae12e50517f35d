"""Report the figures of the run, from the rows and from the history of the queues."""

from __future__ import annotations

from collections import defaultdict
from statistics import quantiles
from typing import TYPE_CHECKING

from django_mq.models import History

from library.demo.outcomes import NAMES, DeadLetter, Totals
from library.shelves import PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

KINDS = {priority: kind for kind, priority in PRIORITIES.items()}
#: Longest reason on one line.
REASON_WIDTH = 70


def rates(since: datetime) -> Iterator[str]:
    """Yield a line for each queue: how many messages it finished, and how fast."""
    for queue in ("index", "facts"):
        rows = History.objects.filter(queue_name=queue, finished_at__gte=since)
        times = sorted(rows.values_list("finished_at", flat=True))
        if len(times) > 1:
            seconds = (times[-1] - times[0]).total_seconds() or 1e-6
            yield f"  {queue:<8}{len(times):>8,} messages in {seconds:5.1f} s {len(times) / seconds:>8,.0f}/s"


def overhead(since: datetime, parsing_seconds: float) -> Iterator[str]:
    """Yield how long the files took without the queue and with it, and the difference for each message."""
    rows = History.objects.filter(queue_name="index", finished_at__gte=since, claimed_at__isnull=False)
    times = list(rows.values_list("claimed_at", "finished_at"))
    if not times:
        return
    seconds = (max(end for _, end in times) - min(begin for begin, _ in times)).total_seconds()
    more = max(0.0, seconds - parsing_seconds) * 1000 / len(times)
    yield f"  without the queue          {parsing_seconds:8.1f} s  in a pool of processes"
    yield f"  as tasks                   {seconds:8.1f} s  from the first to the last"
    yield f"  the queue, Celery, rows    {more:8.1f} ms for each of {len(times):,} tasks"


def totals(stored: Totals, direct: Totals) -> Iterator[str]:
    """Yield the table of totals."""
    yield f"  {'':<12}{'stored':>14}{'direct':>14}"
    for name in NAMES:
        yield f"  {name:<12}{getattr(stored, name):>14,}{getattr(direct, name):>14,}"


def waits(since: datetime) -> Iterator[str]:
    """Yield, for each priority of the index, how long its messages waited before they were claimed."""
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    rows = History.objects.filter(queue_name="index", finished_at__gte=since, claimed_at__isnull=False)
    for priority, ready_at, claimed_at in rows.values_list("priority", "ready_at", "claimed_at"):
        seconds[priority].append((claimed_at - ready_at).total_seconds())
    yield f"  {'priority':<20}{'messages':>10}{'p50 s':>10}{'p95 s':>10}"
    for priority in sorted(seconds, reverse=True):
        half, most = percentiles(seconds[priority])
        name = f"{priority} ({KINDS[priority]})" if priority in KINDS else str(priority)
        yield f"  {name:<20}{len(seconds[priority]):>10,}{half:>10.2f}{most:>10.2f}"


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile."""
    if len(values) == 1:
        return values[0], values[0]
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


def graves(dead: Sequence[DeadLetter]) -> Iterator[str]:
    """Yield a line for each dead letter: its file, how many recorded attempts failed, and why."""
    width = max((len(letter.path) for letter in dead), default=0)
    for letter in dead:
        reason = letter.reason.encode("ascii", "backslashreplace").decode()
        yield f"  {letter.path:<{width}}  {letter.attempts} x  {reason[:REASON_WIDTH]}"
