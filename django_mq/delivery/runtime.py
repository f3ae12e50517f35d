"""The consumer runtime: what mq_worker and Celery's transport have in common.

It is a session, a wake, a listener for hints, and the decisions when to claim and how long to wait. A door drives
it from one thread, turn by turn, and says how work is begun and ended:

    claim ──> begin what was claimed ──> settle_down ──> wait ──> hear ──> poll ──> claim ...

A runtime lives as long as its session. After ``SessionLost`` the door retires it, and makes another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.feeding import MARKER_SECONDS, Polls, Standby, poll_seconds
from django_mq.delivery.session import Driver, Session, Workload
from django_mq.delivery.settling import LINGER_SECONDS
from django_mq.notifications.base import WORKERS_TOPIC, Wake, queue_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Set

    from django_mq.stores.records import Claimed, Instructions

#: The wake's topic when credit came back: no reason to look if nothing was left behind.
CREDIT = "credit"


class ConsumerRuntime:
    """One session that consumes. It opens, as a row of the database, with the first claim."""

    def __init__(
        self, alias: str, *, kind: str, driver: Driver, queues: tuple[str, ...] = (), listed: bool = False
    ) -> None:
        self.wake = Wake()
        self._driver = driver
        self.session = Session(
            alias,
            kind=kind,
            wake=self.wake,
            queues=queues,
            listed=listed,
            driver=replace(driver, describe=self._describe, obey=self._obey),
        )
        self.feeder = self.session.feeder
        self._listener = notifier().listen(self.wake)
        self._standby = Standby(self._listener, self.feeder, priority=self._priority)
        self._polls = Polls()
        self._marker: int | None = None
        # Whether the listener hears of more than durable queues.
        self._hears_others = False

    # What an operator sees and says, by the heartbeat's thread.

    def _describe(self) -> Workload:
        if self.session.retired:
            return Workload()  # its consumers and slots are those of the next session
        load = self._driver.describe()
        told = self._standby.told
        state = "stopping" if self.session.quiet else "notified"
        return replace(
            load,
            consumers=tuple(
                replace(info, state=state) if self.session.quiet or info.queue_name in told else info
                for info in load.consumers
            ),
        )

    def _obey(self, told: Instructions) -> None:
        self._driver.obey(told)
        self.wake.set(CREDIT)

    def _priority(self) -> int:
        return max((info.priority for info in self._driver.describe().consumers), default=0)

    # Claiming.

    @property
    def consumes(self) -> bool:
        """Whether it has claimed, or has queues to claim from."""
        return bool(self.session.queues) or self.session.id is not None

    def subscribe(self, queues: Iterable[str], other_topics: Iterable[str] = ()) -> None:
        """Claim from exactly these queues, and listen to their hints and to other topics."""
        queues, others = tuple(dict.fromkeys(queues)), tuple(other_topics)
        self._hears_others = bool(others)
        self._listener.subscribe([WORKERS_TOPIC, *map(queue_topic, queues), *others])
        self.feeder.consume(queues)

    def claim(
        self, limits: Mapping[str, int], *, credit: int, slots: int, refill: int | Mapping[str, int]
    ) -> list[Claimed]:
        """Claim, settle, or do nothing, as the feeder decides.

        ``limits`` names the queues to claim from now, and how much of each; an operator may have said to claim
        nothing. Raises SessionLost and other StoreErrors.
        """
        if self.session.quiet:
            limits, credit = {}, 0
        self.feeder.restrict(tuple(limits), limits)
        return self.feeder.pump(credit=credit, slots=slots, refill=refill)

    # Waiting.

    def settle_down(self, queues: Collection[str], *, able: bool) -> bool:
        """Before waiting, say whether others may count on this session; False if it must claim first.

        ``able``: what the next look brings could begin at once.
        """
        return self._standby.settle_down(tuple(queues), able=able)

    def wait(self, seconds: float | None) -> None:
        """Wait for a hint, for returning credit, or for so long."""
        self.wake.wait(seconds, clear=False)

    def hear(self) -> Set[str]:
        """Take the wake-up; return the topics that it named."""
        self.wake.clear()
        topics = self.wake.take_topics()
        if WORKERS_TOPIC in topics:
            self.session.renew_soon()
        self._standby.hear(topics)
        return topics

    def poll(self) -> bool:
        """Look if a look is due: seldom where hints arrive, often where none can. Return whether one was."""
        marker = self.session.store.change_marker()
        changed = marker is not None and marker != self._marker
        self._marker = marker
        due = changed or self._seconds_until_look() <= 0
        if due:
            self._polls.restart()
            self.feeder.look()
        return due

    def _seconds_until_look(self) -> float:
        # The heartbeat looks at durable queues only, and a hint may have been missed where none is heard.
        counts = self.hears and not self._hears_others
        return self._polls.seconds(
            poll_seconds(self.session.store, self._listener), self.session.looked_at if counts else 0.0
        )

    @property
    def poll_interval_seconds(self) -> float:
        """How often ``poll`` should be called."""
        return MARKER_SECONDS if self.session.store.features.notices_changes else conf.load().POLL_SECONDS

    def wait_seconds(self) -> float:
        """Return how long to wait at most."""
        due = self.seconds_until_due()
        waits = [self._seconds_until_look(), *([] if due is None else [due])]
        if self.session.store.features.notices_changes:
            waits.append(MARKER_SECONDS)
        return min(waits)

    def seconds_until_due(self) -> float | None:
        """Return when to claim, or to settle down again, although nothing happens; None if never."""
        times = [self.feeder.seconds_until_due(), self._standby.seconds_until_question()]
        if self.session.settlements:
            times.append(LINGER_SECONDS)
        return min((seconds for seconds in times if seconds is not None), default=None)

    @property
    def hears(self) -> bool:
        """Whether hints arrive now."""
        return self._listener.connected

    @property
    def at_work(self) -> bool:
        """Whether others do not count on this session: with a free slot again, it should settle down."""
        return self._standby.at_work

    # Ends.

    def leave(self) -> None:
        """Hear no more hints; what this session was told of and has not seen to, others are told."""
        self._standby.leave()
        self._listener.close()

    def retire(self, unstarted: Iterable[Claimed] = ()) -> None:
        """Claim no more and give back what was not begun; the session lives on until what runs is settled."""
        self.leave()
        self.session.retire(unstarted)
        self.wake.close()

    def close(self) -> None:
        """Settle and give back everything."""
        self.leave()
        self.session.close()
        self.wake.close()
