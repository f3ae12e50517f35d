"""Publishers race for unique keys: eight of them for each pair of keys, in opposite order, rolled back and killed.

    python -m tests.proof.races --store postgresql --races 10000 --rules debounce

In the end there is one message of each key for which something was committed, every publisher was told the id of a
message that is there, and every key is free when its message is gone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.proof.clock import long_run
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proof.place import Child, Place

#: How often a publisher kills itself, and rolls back.
DEATH, ROLLBACK = 0.005, 0.2
#: PostgreSQL looks for a dead-lock after a second by default, which would be most of the time of a race.
DEADLOCK_MILLISECONDS = 20


class Result(NamedTuple):
    """What the races have left."""

    races: int
    killed: int
    #: How many keys have so many messages.
    messages_of_a_key: dict[int, int]
    #: Ids that publishers were told, of messages that are not there.
    lost: int
    #: Messages that are due too early or too late by the rule of debounce.
    ill_timed: int
    #: Keys that are not free when all messages are gone.
    stuck: int

    def check(self) -> None:
        """Raise AssertionError if anything is wrong."""
        assert self.messages_of_a_key.keys() == {1}, self
        assert (self.lost, self.ill_timed, self.stuck) == (0, 0, 0), self
        # A key has no message if all of its publishers failed.
        assert self.messages_of_a_key[1] > self.races, self


def run(place: Place, rules: str, races: int, say: Callable[[str], None] = lambda _: None) -> Result:
    """Let publishers race; return what is left."""
    from tests.proof.racer import RACERS
    from tests.proof.roles import QUEUE

    tickets = place.directory / "tickets"
    tickets.write_text("0")
    _hasten_deadlocks(place)
    given = {"queue": QUEUE, "rules": rules, "tickets": str(tickets), "races": races}
    racers: list[Child] = []
    killed = said = 0

    def is_over() -> bool:
        nonlocal racers, killed, said
        begun = int(tickets.read_text() or 0) // RACERS
        if begun >= said + 1000:
            said = begun
            say(f"{begun} races, {killed} publishers killed")
        living = [each for each in racers if each.alive]
        if begun < races:
            killed += len(racers) - len(living)
        racers = living
        if begun >= races:
            return not racers
        racers += [
            place.start("race", **given, death=DEATH, rollback=ROLLBACK) for _ in range(RACERS - len(racers))
        ]
        return False

    wait_until(is_over, place.story, seconds=3600.0)
    return _result(place, rules, races, killed)


def _hasten_deadlocks(place: Place) -> None:
    from django.db import connections

    connection = connections[place.alias]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            name = connection.ops.quote_name(connection.settings_dict["NAME"])
            cursor.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '{DEADLOCK_MILLISECONDS}ms'")


def _result(place: Place, rules: str, races: int, killed: int) -> Result:
    from django_mq.models import Message
    from tests.proof.notes import SENT, noted

    rows = list(Message.objects.using(place.alias).values_list("message_id", "body", "published_at", "deliver_at"))
    told, there = set(noted(SENT, place.alias)), {row[0] for row in rows}
    keys = [json.loads(bytes(body))["key"] for _, body, _, _ in rows]
    due = [(deliver_at - published_at).total_seconds() for _, _, published_at, deliver_at in rows if deliver_at]
    return Result(
        races=races,
        killed=killed,
        messages_of_a_key=dict(Counter(Counter(keys).values())),
        lost=len(told - there),
        ill_timed=_ill_timed(due, len(rows)) if rules == "debounce" else 0,
        stuck=_stuck(place, races),
    )


def _ill_timed(due: list[float], messages: int) -> int:
    from tests.proof.racer import MOST_SECONDS, QUIET_SECONDS

    # The first publish of a key may be a little older than the message that has it now.
    return messages - sum(QUIET_SECONDS - 1 <= seconds <= MOST_SECONDS for seconds in due)


def _stuck(place: Place, races: int) -> int:
    """Remove the messages, and return how many keys cannot be taken."""
    from django_mq.api import Unique, publish
    from django_mq.errors import DuplicateMessage, UniqueKeyHeld
    from django_mq.models import Message
    from tests.proof.roles import QUEUE

    Message.objects.using(place.alias).all().delete()
    stuck = 0
    for key in (f"{race} {name}" for race in range(races) for name in "ab"):
        try:
            publish(QUEUE, {"key": key}, unique=Unique(key=key), using=place.alias)
        except (DuplicateMessage, UniqueKeyHeld):
            stuck += 1
    return stuck


@contextmanager
def _place(store: str) -> Iterator[tuple[Place, Callable[[str], None]]]:
    if store != "sqlite":
        with long_run(store, durable=False) as longest:
            yield longest.place, longest.say
        return
    with sqlite_run() as found:
        yield found


@contextmanager
def sqlite_run() -> Iterator[tuple[Place, Callable[[str], None]]]:
    """Set Django up, and make a place on a file."""
    import os
    import sys

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.sqlite")
    import django

    django.setup()
    from tests.proof.place import Nursery, Place

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as directory:
        nursery = Nursery()
        with Place(f"sqlite:///{directory}/races.sqlite3", Path(directory), nursery) as place:
            place.prepare()
            yield place, say
        nursery.close()


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.races", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql", "mariadb"), default="postgresql")
    parser.add_argument("--races", type=int, default=10_000)
    parser.add_argument("--rules", choices=("unique", "debounce"), default="unique")
    given = parser.parse_args()
    with _place(given.store) as (place, say):
        result = run(place, given.rules, given.races, say)
        say(str(result))
        result.check()


if __name__ == "__main__":
    main()
