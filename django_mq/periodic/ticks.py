"""The times of a cron line or an interval.

The library counts days, hours and time zones. Debian's cron gives the rules for changes of the clock:

- A line that names hours and minutes: a time that is skipped is due at the end of the gap, and a time that comes
  twice is due the first time.
- A line whose minute or hour begins with ``*`` is due at each time that the clock on the wall shows.
- An interval is counted in elapsed seconds.

The library forgets where it is inside of an hour that comes twice, and names a time twice at the end of a gap. So
only times that are later than the last one count.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from django_mq.errors import WrongSchedule, shown
from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The longest cron line.
MOST_CHARACTERS: Final = 255
#: The units of an interval in words, in seconds.
UNITS: Final[tuple[tuple[str, int], ...]] = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
#: Where the interval of a periodic message without a start begins.
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a message is due. Make it with ``schedule``, which checks it."""

    cron: str = ""
    every_seconds: float | None = None
    zone: ZoneInfo
    start_at: datetime | None = None
    end_at: datetime | None = None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the ticks after a moment, in UTC."""
        if self.start_at is not None and self.start_at > moment:
            # The start itself may be a tick.
            moment = self.start_at - timedelta(microseconds=1)
        found = self._of_interval(moment) if self.every_seconds is not None else self._of_cron(moment)
        end = self.end_at
        return found if end is None else takewhile(lambda tick: tick <= end, found)

    def next(self, moment: datetime) -> datetime | None:
        """Return the first tick after a moment, None if there is none."""
        return next(self.after(moment), None)

    def last(self, first: datetime, until: datetime, most: int) -> list[datetime]:
        """Return the last ticks from the first one until a moment, without a walk through all of them."""
        span = timedelta(minutes=1)
        while True:
            begin = max(first - timedelta(microseconds=1), until - span)
            found = deque(takewhile(lambda tick: tick <= until, self.after(begin)), maxlen=most)
            if len(found) == most or begin < first:
                return list(found)
            span *= 4

    def sentence(self) -> str:
        """Say it in words."""
        if self.every_seconds is not None:
            return _in_words(self.every_seconds)
        return f"{CronSim(self.cron, EPOCH).explain()}, {self.zone.key}"

    def _of_cron(self, moment: datetime) -> Iterator[datetime]:
        last = moment
        for local in CronSim(self.cron, moment.astimezone(self.zone)):
            tick = local.astimezone(UTC)
            if tick > last:
                last = tick
                yield tick

    def _of_interval(self, moment: datetime) -> Iterator[datetime]:
        begin, every = self.start_at or EPOCH, timedelta(seconds=self.every_seconds or 0)
        number = math.floor((moment - begin) / every) + 1
        while True:
            tick = begin + number * every
            if tick > moment:
                yield tick
            number += 1


def _in_words(seconds: float) -> str:
    unit, length = next(each for each in UNITS if not seconds % each[1] or each[1] == 1)
    number = seconds / length
    return f"Every {unit}" if number == 1 else f"Every {PLAIN.digits(number)} {unit}s"


def schedule(
    *,
    cron: str = "",
    every_seconds: float | None = None,
    tz: str = "UTC",
    start_at: datetime | None = None,
    end_at: datetime | None = None,
) -> Schedule:
    """Return the schedule. Raises WrongSchedule for a line that is wrong or never comes, or an unknown zone."""
    try:
        zone = ZoneInfo(tz)
    except (ValueError, OSError, TypeError, KeyError):  # what ZoneInfo raises, by the kind of the mistake
        raise WrongSchedule(f"There is no time zone {shown(tz)}; give a name as 'Europe/Berlin'.") from None
    if every_seconds is None:
        _check(cron, zone)
    return Schedule(
        cron=" ".join(cron.split()), every_seconds=every_seconds, zone=zone, start_at=start_at, end_at=end_at
    )


def _check(cron: str, zone: ZoneInfo) -> None:
    if not isinstance(cron, str) or len(cron) > MOST_CHARACTERS:
        raise WrongSchedule(f"The cron line {shown(cron)} is no text of at most {MOST_CHARACTERS} characters.")
    try:
        next(CronSim(cron, datetime(2000, 1, 1, tzinfo=zone)))
    except CronSimError as error:
        raise WrongSchedule(
            f"The cron line {shown(cron)} is wrong: {error}. Give minute, hour, day of the month, month and day of"
            " the week, as '0 3 * * 1'; six fields begin with the second."
        ) from None
    except StopIteration:
        raise WrongSchedule(f"The cron line {shown(cron)} never comes; correct its day or month.") from None
