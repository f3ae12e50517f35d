"""Every figure of the overview equals a plain count over the rows.

The rows are written down as they are made, in lists; nothing of what the page asks is asked again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from django_mq.models import Consumer, Message, Queue, Rollup
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
STATES = {"scheduled": SCHEDULED, "ready": READY, "claimed": CLAIMED, "dead": DEAD}
COUNTED = ("arrived", "accepted", "failed", "redelivered")
LETTERS = "letters"


class Site:
    """Queues, messages, workers and minutes as chance has it, and what was written of each."""

    def __init__(self, make: Make, chance: random.Random) -> None:
        self.make, self.chance = make, chance
        self.now = timezone.now()
        letters = make.queue(LETTERS)
        self.queues = [letters, *(self._queue(f"q{number}", letters) for number in range(4))]
        self.messages: dict[str, list[Message]] = defaultdict(list)
        for _ in range(chance.randrange(120)):
            self._message(chance.choice(self.queues))
        self.sessions = [self._session(f"w{number}") for number in range(chance.randrange(5))]
        self.consumers = [self._consumer() for _ in range(3) if self.sessions]
        self.minutes = self._minutes()

    def _queue(self, name: str, letters: Queue) -> Queue:
        options: dict[str, Any] = {"paused": self.chance.random() < 0.4}
        if options["paused"] and self.chance.random() < 0.5:
            options["paused_until"] = self.now + timedelta(hours=self.chance.choice((-1, 1)))
        if self.chance.random() < 0.5:
            options["dead_letter_queue"] = letters
        return self.make.queue(name, **options)

    def _message(self, queue: Queue) -> None:
        state = self.chance.choice(list(STATES.values()))
        # Published in the order they arrive; some are due, or past their time, and no maintenance has run.
        published = self.now - timedelta(hours=10, seconds=-30 * Message.objects.count())
        values: dict[str, Any] = {"published_at": published, "level": self.chance.randrange(10)}
        if state == SCHEDULED:
            values["deliver_at"] = self.now + timedelta(minutes=self.chance.choice((-90, -5, 30, 300)))
        if self.chance.random() < 0.2:
            values["expires_at"] = self.now - timedelta(minutes=1)
        self.messages[queue.name].append(self.make.message(state, queue, **values))

    def _session(self, name: str) -> Any:
        names = self.chance.sample([queue.name for queue in self.queues], self.chance.randrange(4))
        slots = self.chance.choice((None, 2, 8))
        busy = None if slots is None else self.chance.randrange(slots + 1)
        deadline = self.now + timedelta(hours=self.chance.choice((-1, 1, 1)))
        return self.make.session(name, deadline=deadline, queues=names, slots=slots, busy=busy)

    def _consumer(self) -> Consumer:
        limit = self.chance.randrange(1, 50)
        return Consumer.objects.create(
            session=self.chance.choice(self.sessions),
            queue_name=self.chance.choice(self.queues).name,
            credit_limit=limit,
            credit_used=self.chance.randrange(limit),
        )

    def _minutes(self) -> list[Rollup]:
        begin = self.now.replace(second=0, microsecond=0)
        found = []
        # From the second to the fourth, so that a minute that ends meanwhile moves nothing in or out.
        for ago in range(2, 5):
            when = begin - timedelta(minutes=ago)
            whole = Rollup(begins_at=when, queue_name="")
            for queue in self.chance.sample(self.queues, 3):
                counts = {name: self.chance.randrange(1000) for name in COUNTED}
                found.append(Rollup.objects.create(begins_at=when, queue_name=queue.name, **counts))
                for name, number in counts.items():
                    setattr(whole, name, getattr(whole, name) + number)
            whole.save()
        return found

    def alive(self) -> list[Any]:
        return [session for session in self.sessions if session.deadline > self.now]

    def consumers_of(self, name: str) -> int:
        return sum(name in session.queues for session in self.alive())

    def waits_since(self, name: str) -> datetime | None:
        """Return since when the oldest message waits that could be delivered."""
        ready = [one.published_at for one in self.messages[name] if one.state == READY]
        due = [one.deliver_at for one in self.messages[name] if one.state == SCHEDULED]
        return min([*ready, *(time for time in due if time is not None and time <= self.now)], default=None)

    def expected(self, queue: Queue) -> dict[str, Any]:
        """Return the figures of a queue but for its age."""
        states = [message.state for message in self.messages[queue.name]]
        alive = [session for session in self.alive() if queue.name in session.queues]
        credit = [one for one in self.consumers if one.queue_name == queue.name and one.session in self.alive()]
        mine = [minute for minute in self.minutes if minute.queue_name == queue.name]
        until = queue.paused_until
        return {
            **{name: states.count(state) for name, state in STATES.items()},
            "consumers": len(alive),
            "paused": queue.paused and (until is None or until > self.now),
            "takes_dead_letters": any(one.dead_letter_queue_id == queue.pk for one in self.queues),
            "slots_busy": sum(session.busy or 0 for session in alive),
            "slots": sum(session.slots or 0 for session in alive),
            "credit_used": sum(one.credit_used for one in credit),
            "credit_limit": sum(one.credit_limit for one in credit),
            "rates": {
                name: pytest.approx(sum(getattr(minute, name) for minute in mine) / 180) for name in COUNTED
            },
        }


@pytest.mark.parametrize("seed", range(4))
def test_every_figure_is_that_of_a_plain_count(site: str, browse: Client, make: Make, seed: int) -> None:
    written = Site(make, random.Random(seed))

    figures = browse.get(f"{list_of('queue')}overview.json").json()
    shown = {row["name"]: row for row in figures["queues"]}

    assert set(shown) == {queue.name for queue in written.queues}
    for queue in written.queues:
        row, expected = shown[queue.name], written.expected(queue)
        assert {name: row[name] for name in expected} == expected, queue.name
        since = written.waits_since(queue.name)
        assert (row["oldest_ready_seconds"] is None) == (since is None), queue.name
        if since is not None:
            # By the database's clock, which is this machine's, between then and now.
            earliest, latest = (moment - since for moment in (written.now, timezone.now()))
            assert earliest.total_seconds() - 1 <= row["oldest_ready_seconds"] <= latest.total_seconds() + 1
    alive = written.alive()
    assert figures["workers"] == {
        "alive": len(alive),
        "stale": len(written.sessions) - len(alive),
        "slots_busy": sum(session.busy or 0 for session in alive),
        "slots": sum(session.slots or 0 for session in alive),
    }
    for name in COUNTED:
        points = [point[name] for point in figures["points"] if point[name] is not None]
        assert len(points) == 3
        assert sum(points) * 60 == pytest.approx(sum(getattr(minute, name) for minute in written.minutes))


@pytest.mark.parametrize("seed", range(2))
def test_what_waits_longest_stands_first_and_letters_that_rest_do_not_wait(
    site: str, browse: Client, make: Make, seed: int
) -> None:
    written = Site(make, random.Random(100 + seed))

    def urgency(queue: Queue) -> tuple[float, int, str]:
        states = [message.state for message in written.messages[queue.name]]
        rests = written.expected(queue)["takes_dead_letters"] and not written.consumers_of(queue.name)
        since = None if rests else written.waits_since(queue.name)
        letters = states.count(DEAD) + (states.count(READY) if rests else 0)
        return since.timestamp() if since else float("inf"), -letters, queue.name

    rows = browse.get(f"{list_of('queue')}overview.json").json()["queues"]

    assert [row["name"] for row in rows] == [queue.name for queue in sorted(written.queues, key=urgency)]
