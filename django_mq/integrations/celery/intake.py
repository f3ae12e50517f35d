"""Claims for a transport's channels: when, how much, and from which queues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.feeding import MARKER_SECONDS, Polls, Standby, poll_seconds
from django_mq.delivery.session import Session
from django_mq.integrations.celery.committing import store_beside
from django_mq.notifications.base import ANY, WORKERS_TOPIC, Wake, queue_topic, volatile_topic
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from django_mq.delivery.feeding import Feeder
    from django_mq.delivery.session import Driver
    from django_mq.notifications.base import Listener
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, Instructions


class Intake:
    """One session, one listener, one feeder; opened by the first consumer, so that publishers have none."""

    def __init__(self, alias: str, *, listed: bool, driver: Driver) -> None:
        self.alias = alias
        self.listed = listed
        self._driver = driver
        self._wake: Wake | None = None
        self._store: Store | None = None
        self._session: Session | None = None
        self._feeder: Feeder | None = None
        self._listener: Listener | None = None
        self._marker: int | None = None
        self._polls = Polls()
        self._standby: Standby | None = None
        # Whether what the last look could have brought would have begun at once.
        self._able = False
        #: Set when the volatile lane should be looked at.
        self.volatile_look = True

    @property
    def store(self) -> Store:
        """The private store: the session's, or another for a transport that never consumes."""
        if self._session is not None:
            return self._session.store
        if self._store is None:
            self._store = store_beside(self.alias)
        return self._store

    @property
    def wake(self) -> Wake:
        """What hints and returning credit set; two descriptors, which publishers do without."""
        if self._wake is None:
            self._wake = Wake()
        return self._wake

    @property
    def consumes(self) -> bool:
        """Whether a session was begun."""
        return self._session is not None

    @property
    def session(self) -> Session:
        """The session, made when first asked for and again after a retirement."""
        if self._session is None:
            driver = replace(self._driver, obey=self._obey)
            self._session = Session(self.alias, kind="celery", wake=self.wake, listed=self.listed, driver=driver)
        return self._session

    def _obey(self, told: Instructions) -> None:
        """Take what an operator says, in the keeper's thread; credit and quiet are asked for at each claim."""
        self._driver.obey(told)
        wake = self._wake
        if wake is not None:
            wake.set("credit")

    @property
    def quiet(self) -> bool:
        """Whether the session is told to claim no more."""
        return self._session is not None and self._session.quiet

    @property
    def given_credit(self) -> int | None:
        """The credit that an operator has given each consumer, None for their own."""
        return None if self._session is None else self._session.instructions.credit

    @property
    def told(self) -> Set[str]:
        """Queues of whose news the session was told, and which it has not seen to yet."""
        return self._standby.told if self._standby is not None else frozenset()

    def _stand_by(self) -> Standby | None:
        """Return the dealings with the hint channel, once there are a feeder and a listener."""
        if self._standby is None and self._feeder is not None and self._listener is not None:
            priority = max((consumer.priority for consumer in self._driver.describe()), default=0)
            self._standby = Standby(self._listener, self._feeder, priority=priority)
        return self._standby

    @property
    def feeder(self) -> Feeder:
        """The feeder of the session."""
        if self._feeder is None:
            self._feeder = self.session.feeder
        return self._feeder

    def consume(self, queues: Iterable[str], volatile: Iterable[str]) -> None:
        """Claim from, and listen to, exactly these queues."""
        durable, volatile = tuple(dict.fromkeys(queues)), tuple(volatile)
        if not (durable or volatile or self._session):
            self._rest()
            return
        if self._listener is None:
            self._listener = notifier().listen(self.wake)
        self._listener.subscribe([WORKERS_TOPIC, *map(queue_topic, durable), *map(volatile_topic, volatile)])
        if durable or self._feeder is not None:
            self.feeder.consume(durable)
        self.volatile_look = True

    def _rest(self) -> None:
        """Keep neither a listener nor a connection for a program that has heard its answers."""
        listener, self._listener = self._listener, None
        self._standby = None
        if listener is not None:
            listener.close()
        if self._store is not None:
            self._store.close()

    def ensure_certain(self) -> None:
        """Let nothing begin, after a pause, that may be others' by now. Raises SessionLost and other StoreErrors.

        Celery then drops what its pool has not begun, and connects anew.
        """
        if self._session is not None:
            self._session.certainty.ensure()

    def narrow(self, limits: Mapping[str, int]) -> None:
        """Claim from these queues only, for now, and so much of each, without ceasing to listen to the others."""
        if self._feeder is not None:
            self._feeder.restrict(tuple(limits), limits)

    def hear(self) -> None:
        """Take the wake-up and remember what it was about."""
        if not self.wake.clear():
            return
        topics = self.wake.take_topics()
        if WORKERS_TOPIC in topics and self._session is not None:
            self._session.renew_soon()
        if standby := self._stand_by():
            standby.hear(topics)
        if ANY in topics or any(topic.startswith("v:") for topic in topics):
            self.volatile_look = True

    def _look(self) -> None:
        if self._feeder is not None:
            self._feeder.look()

    def poll(self) -> None:
        """Look regularly where hints may not come: often without a channel for them, seldom with one."""
        marker = self.store.change_marker()
        if marker is not None and marker != self._marker:
            self._marker = marker
            self._look_everywhere()
        if self._polls.due(self._poll_seconds()):
            self._look_everywhere()

    def _look_everywhere(self) -> None:
        self._polls.restart()
        self._look()
        self.volatile_look = True

    def _poll_seconds(self) -> float:
        return poll_seconds(self.store, self._listener)

    def poll_interval_seconds(self) -> float:
        """How often ``poll`` should be called."""
        if self.store.features.notices_changes:
            return MARKER_SECONDS
        return conf.load().POLL_SECONDS

    def claim(self, *, credit: int, slots: int, refill: int) -> list[Claimed]:
        """Claim, settle, or do nothing, as the feeder decides. Raises StoreError."""
        if self._feeder is None:
            return []
        self._able = credit > 0 and slots > 0
        return self._feeder.pump(credit=credit, slots=slots, refill=refill)

    @property
    def may_claim_ahead(self) -> bool:
        """Whether neither the queues' rules nor an operator say how much may be held."""
        ruled = self._feeder is not None and self._feeder.ruled
        return not ruled and self.given_credit is None

    def busy(self) -> None:
        """Nothing could begin at once: enough is claimed already."""
        self._able = False

    def settle_down(self) -> bool:
        """Before waiting, let others count on us, or not; False if there is something to claim first."""
        standby = self._stand_by()
        if standby is None or self._feeder is None:
            return True
        return standby.settle_down(self._feeder.queues, able=self._able)

    def timer_seconds(self) -> float | None:
        """Return when ``claim`` must be called again although nothing happens, None if never."""
        if self._feeder is None:
            return None
        waiting = self._feeder.session.settlements
        if waiting:
            return 0.01
        question = None if self._standby is None else self._standby.seconds_until_question()
        times = [seconds for seconds in (self._feeder.seconds_until_due(), question) if seconds is not None]
        return min(times, default=None)

    def retire(self) -> None:
        """Stop listening and claiming; the session lives on until what runs has been settled."""
        standby, self._standby = self._standby, None
        if standby is not None:
            standby.leave()
        wake, self._wake = self._wake, None
        session, self._session, self._feeder = self._session, None, None
        self._rest()
        if session is not None:
            session.retire()
        if wake is not None:
            wake.close()
