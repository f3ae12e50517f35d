"""Ten days of a fleet that publishes ticks, in which clocks change and workers are killed.

    python -m tests.proof.ticks --days 10 --store mariadb

Six workers share periodic messages in ten time zones that change their clocks in these days. Their clock is moved
by minutes or hours at a time, forwards only, and one worker after the other is killed. In the end each tick was
published once, and each message was handled. It says how it goes.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tests.proof.clock import long_run, told
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proof.account import Account
    from tests.proof.place import Child, Place

WORKERS = 6
#: All of them change their clocks between the last Friday of March and the first Sunday of April.
ZONES = (
    *("Europe/Berlin", "Europe/Dublin", "Asia/Beirut", "Atlantic/Azores", "America/Nuuk", "Asia/Jerusalem"),
    *("Australia/Lord_Howe", "Pacific/Auckland", "America/Santiago", "Pacific/Chatham"),
)
LINES = ("*/30 * * * *", "30 0-3 * * *", "15 */2 * * *", "0 2 * * *")
#: By how many minutes the clock is moved at a time: once in a while by longer than a tick may be late.
MOVES = (0.5, 1, 5, 20, 60, 240)


def first_day() -> datetime:
    """Return noon of the Thursday before the last Sunday of March of the next year."""
    end = datetime(datetime.now(UTC).year + 1, 3, 31, 12, tzinfo=UTC)
    return end - timedelta(days=(end.weekday() + 1) % 7 + 3)


def changes(zone: str, begin: datetime, days: float) -> bool:
    """Whether a zone changes its clocks in these days."""
    key = ZoneInfo(zone)
    return begin.astimezone(key).utcoffset() != (begin + timedelta(days=days)).astimezone(key).utcoffset()


@dataclass
class Fleet:
    """One run."""

    place: Place
    chance: random.Random
    begin: datetime = field(default_factory=first_day)
    workers: list[Child] = field(default_factory=list)
    kills: int = 0
    moves: int = 0
    #: What is added to the clock.
    offset: timedelta = timedelta(0)

    @property
    def file(self) -> Path:
        """What moves the clocks of the workers."""
        return self.place.directory / "clock"

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def move(self, by: timedelta) -> None:
        """Move the clock of all processes."""
        from django_mq.stores.clock import clock

        self.offset = clock.offset = self.offset + by
        written = self.file.with_suffix(".new")
        written.write_text(str(self.offset.total_seconds()), encoding="ascii")
        written.replace(self.file)

    def declare(self) -> None:
        """Write the periodic messages: each line in each zone, all of whose ticks count."""
        from django_mq.periodic import editor
        from django_mq.periodic.models import PeriodicMessage
        from tests.proof.roles import QUEUE

        self.move(self.begin - self.now)
        self.place.declare(history_days=100)  # all that was handled is counted
        for zone in ZONES:
            for line in LINES:
                rules = {"missed": "all", "most_missed": 1000}
                row = PeriodicMessage(name=f"{zone} {line}", queue=QUEUE, cron=line, tz=zone, **rules)
                editor.save(row, using=self.place.alias)

    def run(self, days: float, pause: float, say: Callable[[str], None]) -> Account:
        """Let so many days pass; return the account. The clock is moved, and a worker dies, after each pause."""
        self.declare()
        self.workers = [self._a_worker() for _ in range(WORKERS)]
        end, said = self.begin + timedelta(days=days), 0.0
        while self.now < end:
            self.move(timedelta(minutes=self.chance.choice(MOVES)))
            self.moves += 1
            threading.Event().wait(self.chance.uniform(0, 2 * pause))
            victim = self.chance.randrange(WORKERS)
            self.workers[victim].kill()
            self.workers[victim] = self._a_worker()
            self.kills += 1
            if time.monotonic() - said > 15:
                said = time.monotonic()
                say(f"{self.now:%d %B %H:%M}, {self.moves} moves, {self.kills} kills")
        wait_until(self._is_idle, self.place.story)
        for worker in self.workers:
            worker.end()
        return self._account()

    def _a_worker(self) -> Child:
        return self.place.start("consume", threads=1, moved=str(self.file))

    def _is_idle(self) -> bool:
        from django_mq.engine.states import State
        from django_mq.periodic.models import PeriodicMessage

        behind = PeriodicMessage.objects.using(self.place.alias).filter(next_at__lt=self.now)
        return not behind.exists() and not self.place.count(State.READY, State.CLAIMED)

    def _account(self) -> Account:
        from django_mq.periodic.models import PeriodicRun
        from tests.proof.account import Account
        from tests.proof.notes import SENT, note

        published = PeriodicRun.objects.using(self.place.alias).values_list("message_id", flat=True)
        note(SENT, [id_ for id_ in published if id_ is not None], self.place.alias)
        return Account.of(self.place.alias)

    def check(self) -> Counter[str]:
        """Fail unless each tick was published once; return how many there are in each zone."""
        from django_mq.periodic.models import PeriodicMessage

        found: Counter[str] = Counter()
        for row in PeriodicMessage.objects.using(self.place.alias):
            until = row.next_at
            assert until is not None, f"{row.name} has no next tick"
            published = list(row.runs.order_by("due_at").values_list("due_at", flat=True))
            ticks = list(takewhile(lambda tick, until=until: tick < until, row.schedule.after(row.created_at)))
            lost, twice = set(ticks) - set(published), len(published) - len(set(published))
            assert published == ticks, f"{row.name}: {len(lost)} lost, {twice} twice: {sorted(lost)[:3]}"
            found[row.tz] += len(ticks)
        return found


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.ticks", description="Publish ticks for ten days.")
    parser.add_argument("--store", choices=("postgresql", "mariadb"), default="postgresql")
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two moves, on the average")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    with long_run(given.store) as run:
        fleet = Fleet(run.place, random.Random(given.seed))
        account = fleet.run(given.days, given.pause, run.say)
        account.check()
        account.check_done()
        found = fleet.check()
        changed = [zone for zone in ZONES if changes(zone, fleet.begin, given.days)]
        run.say(f"{fleet.moves} moves, {fleet.kills} kills, {len(changed)} changes of clocks; {told(account)}")
        run.say(f"{found.total():,} ticks, each published once: {dict(found)}")


if __name__ == "__main__":
    main()
