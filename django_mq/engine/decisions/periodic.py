"""Which ticks of a periodic message are published, skipped or waited for, and what an operator has changed of one.

A tick is a time at which a periodic message is due. Another package says when the ticks are.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: A leader looks at least so often.
LOOK_SECONDS: Final = 60.0
#: A round of maintenance lets the leader look at what is due within so many seconds: another process may have
#: changed it since the last look. Longer than two rounds, so that it is decided in time.
SOON_SECONDS: Final = 15.0
#: A tick is published as a scheduled message so long before its time: longer than two looks of a leader, and than
#: a new leader needs to take over.
AHEAD_SECONDS: Final = 150.0
#: A tick that is not published until so long after its time is missed.
LATE_SECONDS: Final = 60.0
#: Values that are one for operators.
WHEN: Final = frozenset({"cron", "every_seconds"})
#: Bounds of what a periodic message may say.
LEAST_INTERVAL_SECONDS: Final = 1.0
MOST_INTERVAL_SECONDS: Final = 366 * 86400.0
MOST_JITTER_SECONDS: Final = 86400.0
MOST_MISSED: Final = 1000
#: Dates end with the years 1 and 9999, and ticks are looked for around them.
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 9000


class Missed(StrEnum):
    """What to do with ticks that no worker has published in time."""

    SKIP = "skip"
    #: Publish one message for all of them, with the time of the last one.
    ONCE = "once"
    #: Publish each of the last ones, up to a bound.
    ALL = "all"


class Overlap(StrEnum):
    """What to do with a tick when the run before has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    #: Cancel the run before.
    REPLACE = "replace"


class TickStep(Enum):
    """What becomes of one tick."""

    PUBLISH = "publish"
    SKIP = "skip"
    #: Decide when its time has come: the run before may end until then.
    WAIT = "wait"
    #: Cancel the run before, and publish.
    REPLACE = "replace"


class PreviousRun(NamedTuple):
    """The run before: when its message left its queue, None if it has not."""

    ended_at: datetime | None


def step_for(tick: datetime, before: PreviousRun | None, overlap: Overlap, now: datetime) -> TickStep:
    """Return what becomes of a tick, after the run before."""
    if overlap is Overlap.QUEUE or before is None:
        return TickStep.PUBLISH
    if before.ended_at is not None:
        late = overlap is Overlap.SKIP and before.ended_at > tick
        return TickStep.SKIP if late else TickStep.PUBLISH
    if tick > now:
        return TickStep.WAIT
    return TickStep.SKIP if overlap is Overlap.SKIP else TickStep.REPLACE


def look_at_of(next_at: datetime | None, now: datetime, *, waits: bool) -> datetime | None:
    """Return when to decide on the tick that is not decided yet: at its time if it waits, else ahead of it."""
    if next_at is None or waits:
        return next_at
    # Ticks every second are published for a minute at a time.
    return max(next_at - timedelta(seconds=AHEAD_SECONDS), now + timedelta(seconds=LOOK_SECONDS))


def caught_up(missed: Sequence[datetime], rule: Missed, most: int) -> Sequence[datetime]:
    """Return which of the missed ticks are published, the last ones of them at most."""
    if rule is Missed.SKIP or not missed:
        return ()
    return missed[-1:] if rule is Missed.ONCE else missed[-most:]


def jitter_of(name: str, tick: datetime, most_seconds: float) -> float:
    """Return by how many seconds a tick is late on purpose: the same number in each process."""
    if not most_seconds:
        return 0.0
    digest = blake2b(f"{name}\n{tick.timestamp()}".encode(), digest_size=8).digest()
    return most_seconds * int.from_bytes(digest) / 2**64


def changed_in(values: Mapping[str, Any], declared: Mapping[str, Any]) -> list[str]:
    """Return the names of the values that are not as the code declares them."""
    return [name for name, value in declared.items() if name in values and values[name] != value]


def followed(values: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for code that declares something else now: what an operator has changed stays."""
    kept = set(changed_in(values, before))
    if kept & WHEN:
        kept |= WHEN
    return {name: values[name] if name in kept else value for name, value in now.items()}


def is_old(digest: str, known: Sequence[str]) -> bool:
    """Whether newer code has begun since code with this digest began. The newest known digest is the last one."""
    return digest in known and known[-1] != digest


def is_too_old(last: datetime, now: datetime, alert_seconds: float | None) -> bool:
    """Whether the last success, or the beginning if there was none, is longer ago than stated."""
    return alert_seconds is not None and (now - last).total_seconds() > alert_seconds


def problems_of(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is impossible, as a sentence without a full stop, but for the cron line and the time zone."""
    cron, every = values["cron"], values["every_seconds"]
    if bool(cron) == (every is not None):
        yield "give a cron line or every_seconds, and not both"
    if every is not None and not _is_number(every, LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS):
        yield f"every_seconds is {every!r}; give {LEAST_INTERVAL_SECONDS:g} to {MOST_INTERVAL_SECONDS:.0f} seconds"
    if not _is_number(values["jitter_seconds"], 0, MOST_JITTER_SECONDS):
        yield f"jitter_seconds is {values['jitter_seconds']!r}; give 0 to {MOST_JITTER_SECONDS:.0f} seconds"
    most = values["most_missed"]
    if not _is_number(most, 1, MOST_MISSED) or most != int(most):
        yield f"most_missed is {most!r}; give 1 to {MOST_MISSED}"
    for name, kind in (("missed", Missed), ("overlap", Overlap)):
        if values[name] not in [each.value for each in kind]:
            yield f"{name} is {values[name]!r}; give one of {', '.join(each.value for each in kind)}"
    alert = values["alert_seconds"]
    if alert is not None and not _is_number(alert, 1, 10 * MOST_INTERVAL_SECONDS):
        yield f"alert_seconds is {alert!r}; give 1 second or more, at most ten years"
    yield from _problems_of_span(values["start_at"], values["end_at"])


def _problems_of_span(start: Any, end: Any) -> Iterator[str]:
    for name, moment in (("start_at", start), ("end_at", end)):
        if moment is not None and not isinstance(moment, datetime):
            yield f"{name} is {moment!r}; give an aware datetime"
            return
        if moment is not None and moment.utcoffset() is None:
            yield f"{name} is {moment}, without a time zone; give an aware datetime"
            return
    if start is not None and not FIRST_YEAR <= start.year <= LAST_YEAR:
        yield f"start_at is {start}; give a time in the years {FIRST_YEAR} to {LAST_YEAR}"
    if start is not None and end is not None and start >= end:
        yield f"end_at is {end}, which is not after start_at, {start}"


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
