"""The figures of the past in steps of a minute, ten minutes, an hour and six: what is added up when, and kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MINUTE: Final = timedelta(minutes=1)
TEN_MINUTES: Final = timedelta(minutes=10)
HOUR: Final = timedelta(hours=1)
SIX_HOURS: Final = timedelta(hours=6)
#: How long the steps of each length are kept, the shortest first: those of a span, and of the same span before it.
KEPT: Final = {
    MINUTE: timedelta(days=2, hours=2),
    TEN_MINUTES: timedelta(days=15),
    HOUR: timedelta(days=31),
    SIX_HOURS: timedelta(days=62),
}
#: The steps that are summed up from shorter ones.
PARTS: Final = {TEN_MINUTES: MINUTE, HOUR: TEN_MINUTES, SIX_HOURS: HOUR}
#: How long after its end a minute is summed up.
SETTLING: Final = timedelta(seconds=5)
#: How many past minutes are summed up. No worker was alive in earlier ones, so no message finished.
BACK: Final = 10
#: The ages, in minutes, at which a minute is counted again. If a transaction that ended later has added rows, the
#: minute is summed up again.
RECOUNTED: Final = (5, 60)
#: The most types of a queue in a step. The rarer ones are added up under one name.
MOST_TYPES: Final = 100
OTHER_TYPES: Final = "(other types)"
#: The queue's and the type's name in the figures of all queues.
ALL: Final = ("", "")
COUNTED: Final = ("arrived", "accepted", "expired", "removed", "dead", "failed", "redelivered")


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened in a step. Figures of parts of a step, or of several queues, can be added up."""

    #: Messages that were published, or ended in each way; failed attempts; deliveries that were not the first.
    arrived: int = 0
    accepted: int = 0
    expired: int = 0
    removed: int = 0
    dead: int = 0
    failed: int = 0
    redelivered: int = 0
    #: The most messages that were ready and claimed at the end of a minute; None if that is not known.
    ready: int | None = None
    claimed: int | None = None
    #: The time that accepted messages waited and were held, in all.
    wait_seconds: float = 0.0
    run_seconds: float = 0.0
    #: Histograms of the waits and runs of accepted messages.
    waits: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)

    def add(self, other: Figures, *, beside: bool) -> None:
        """Add the figures of another queue or type of the same step (``beside``), or of another step."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wait_seconds += other.wait_seconds
        self.run_seconds += other.run_seconds
        self.ready = _depth(self.ready, other.ready, beside=beside)
        self.claimed = _depth(self.claimed, other.claimed, beside=beside)
        for mine, others in ((self.waits, other.waits), (self.runs, other.runs)):
            for number, count in others.items():
                mine[number] = mine.get(number, 0) + count


#: Figures by queue and type.
Step: TypeAlias = dict[tuple[str, str], Figures]


def _depth(one: int | None, other: int | None, *, beside: bool) -> int | None:
    known = [each for each in (one, other) if each is not None]
    if not known:
        return None
    return sum(known) if beside else max(known)


def added_up(figures: Iterable[Figures], *, beside: bool) -> Figures:
    """Return the sum of some figures."""
    total = Figures()
    for each in figures:
        total.add(each, beside=beside)
    return total


def merged(steps: Iterable[Step]) -> Step:
    """Return the figures of a step from those of its parts."""
    found: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)
    for step in steps:
        for key, figures in step.items():
            found[key].add(figures, beside=False)
    return with_few_types(found)


def with_few_types(step: Mapping[tuple[str, str], Figures]) -> Step:
    """Return the figures with at most ``MOST_TYPES`` types of each queue, and the rest as one."""
    types: Counter[str] = Counter(queue for queue, _ in step)
    if max(types.values(), default=0) <= MOST_TYPES:
        return dict(step)
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    for (queue, type_), figures in step.items():
        kept[queue][type_] += figures.arrived + figures.accepted + figures.failed
    names = {queue: {type_ for type_, _ in counted.most_common(MOST_TYPES - 1)} for queue, counted in kept.items()}
    found: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)
    for (queue, type_), figures in step.items():
        is_kept = types[queue] <= MOST_TYPES or type_ in names[queue]
        found[queue, type_ if is_kept else OTHER_TYPES].add(figures, beside=True)
    return dict(found)


def begin_of(time: datetime, step: timedelta) -> datetime:
    """Return the begin of the step in which a time lies."""
    return datetime.fromtimestamp(time.timestamp() // step.total_seconds() * step.total_seconds(), UTC)


def missing(known: Collection[datetime], current: datetime) -> list[datetime]:
    """Return the minutes to sum up while this one runs."""
    minutes = [current - MINUTE * number for number in range(BACK, 0, -1)]
    return [minute for minute in minutes if minute not in known]


def to_recount(current: datetime) -> list[datetime]:
    """Return the minutes to count again while this one runs, the oldest first."""
    return [current - MINUTE * (age + 1) for age in reversed(RECOUNTED)]


def closed(step: timedelta, changed: Iterable[datetime], current: datetime) -> list[datetime]:
    """Return the begins of the steps that are over, and hold one of these minutes."""
    begins = {begin_of(minute, step) for minute in changed}
    return sorted(begin for begin in begins if begin + step <= current)
