"""Standing by: when a session may be told of news, and what it does with a notice.

Who sleeps with credit and a free slot is interested. Who is told claims; if it cannot (no
credit, no slot, paused by its owner), or cannot take everything, it hands the notice on.
Who works is not interested, or it would be told in place of an idle one.

The order keeps anything from being slept through: become interested, look once if news
was missed, sleep.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.notifications.base import ANY, LOOK, News, queue_of, queue_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Collection, Set

    from django_mq.delivery.feeding import Feeder
    from django_mq.notifications.base import Listener, Standing

#: How late another session may be with a due message before this one asks what became of it, in seconds.
GRACE_SECONDS = 0.2
#: Times closer together than this, in seconds, are one: a wait ends a little late, never early.
SAME_SECONDS = 0.001


class Standby:
    """One session's dealings with the hint channel, for the driver that also pumps its feeder."""

    def __init__(self, listener: Listener, feeder: Feeder, *, priority: int = 0) -> None:
        self._listener = listener
        self._feeder = feeder
        self._priority = priority
        # The queues Redis knows us to be interested in, and the due time it knows; none while we work.
        self._queues: tuple[str, ...] = ()
        self._due_at: float | None = None
        self._renew_at = 0.0
        # When to ask whether another session has seen to what was due.
        self._ask_at: float | None = None
        # Queues of whose news we were told, and have neither claimed nor said so yet.
        self._told: set[str] = set()
        # Queues in which others leave it to us to look when something is due.
        self._armed: tuple[str, ...] = ()

    def hear(self, topics: Collection[str]) -> None:
        """Take the wake's topics: remember notices, and look if there may be something."""
        notices = [topic for topic in topics if topic[:2] in {"n:", "b:"}]
        if notices or ANY in topics:
            self._queues = ()  # told once, or cut off: interested no more
        self._told.update(map(queue_of, notices))
        # What came back, or was steered by hand, may stand where this session has been.
        whole = ANY in topics or any(topic[:2] in {"b:", "q:"} for topic in topics)
        if notices or whole or LOOK in topics:
            self._feeder.look(whole=whole)

    def settle_down(self, queues: tuple[str, ...], *, able: bool) -> bool:
        """Before the driver waits: be interested if ``able`` to claim at once; False if it must look first."""
        able = able and bool(queues) and not self._feeder.session.retired
        if self._told and (self._feeder.backlog or self._feeder.looking):
            self._hand_on(self._told)
        if self._told and self._feeder.ruled_out:
            self._pass_on(self._told)
        if self._is_late() and not able:
            self._hand_on(self._armed)
            self._armed = ()  # they know now; told at each turn, they would be woken in vain
        if not able:
            self._be_at_work()
        elif self._needs_saying(queues):
            self._be_interested(queues)
        return not (able and self._feeder.looking)

    @property
    def told(self) -> Set[str]:
        """Queues of whose news this session was told, and which it has not seen to yet."""
        return self._told

    @property
    def at_work(self) -> bool:
        """Whether nobody counts on this session: once it has a free slot, it should settle down again."""
        return not self._queues

    def _is_late(self) -> bool:
        """Whether what we were to see to is due."""
        return bool(self._armed) and self._feeder.looking and self._feeder.due_at is None

    def _hand_on(self, queues: Collection[str]) -> None:
        """Let others do what we were woken for, and could not do, or not alone."""
        self._be_at_work()
        notifier().announce(dict.fromkeys(queues, News(messages=1)))

    def _pass_on(self, queues: Collection[str]) -> None:
        """Tell everybody what the queue's rules keep from this session: it does not know who may have it."""
        notifier().send(map(queue_topic, queues))
        self._told = set()

    def _be_at_work(self) -> None:
        if self._queues or self._told:
            self._listener.withdraw(self._told)
        self._queues, self._told, self._ask_at = (), set(), None

    def _needs_saying(self, queues: tuple[str, ...]) -> bool:
        if queues != self._queues or self._told:
            return True
        now = time.monotonic()
        if now >= self._renew_at or (self._ask_at is not None and now >= self._ask_at):
            return True
        return not _same(self._feeder.due_at, self._due_at)

    def _be_interested(self, queues: tuple[str, ...]) -> None:
        following = self._ask_at is not None and self._feeder.due_at is None
        standing = self._listener.interest(
            queues,
            due_seconds=self._feeder.seconds_until_due(),
            following=following,
            priority=self._priority,
        )
        self._queues, self._told = queues, set()
        self._renew_at = time.monotonic() + conf.load().SAFETY_POLL_SECONDS
        self._wait_for_due(standing)
        if standing.missed:
            self._feeder.look()

    def _wait_for_due(self, standing: Standing) -> None:
        """Arm for what is due next, or leave it to the session that does."""
        self._armed = () if standing.due_seconds is None else self._queues
        if standing.due_seconds is None:
            self._feeder.expect(None)
        elif self._feeder.due_at is None:
            self._feeder.expect(standing.due_seconds)
        self._due_at = self._feeder.due_at
        ask = standing.ask_seconds
        self._ask_at = None if ask is None else time.monotonic() + ask + GRACE_SECONDS

    def seconds_until_question(self) -> float | None:
        """Return when ``settle_down`` must be called again although nothing happens, None if never."""
        if self.at_work:
            return None
        asks = self._renew_at if self._ask_at is None else min(self._ask_at, self._renew_at)
        return max(0.0, asks - time.monotonic())

    def leave(self) -> None:
        """Be told no more; whoever is idle gets the notices that were not seen to."""
        if self._told:
            self._hand_on(self._told)
        self._be_at_work()


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < SAME_SECONDS
