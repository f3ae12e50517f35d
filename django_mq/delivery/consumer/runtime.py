"""The consumer runtime: what mq_worker and Celery's transport have in common.

A runtime is a session, a wake, a listener for hints, and the decisions when to claim and how long to wait. It
lives as long as its session. After ``SessionLost`` the caller retires it, and makes another. One thread calls it
in a loop:

    claim ──> begin what was claimed ──> settle_down ──> wait ──> hear ──> poll ──> claim ...

The fetcher decides when to claim, and how much: because of hints, of due times, and of credit that comes back. A
session with credit and a free slot registers as idle before it waits, and is then notified of news. A notified
session claims. If it cannot (no credit, no slot, told to be quiet), or cannot take everything, it hands the
notification on. A session at work is not registered: an idle one is to be notified. The order matters: a session
registers, looks once if it missed news, and only then waits.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from django_mq import conf
from django_mq.delivery.consumer.lease import RENEWALS, Driver, Workload
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.consumer.settlements import LINGER_SECONDS
from django_mq.engine.decisions.claim import ByteCredit, ClaimBytes
from django_mq.engine.decisions.session import LoopState
from django_mq.errors import StoreUnavailable
from django_mq.notifications.base import ANY, LOOK, WORKERS_TOPIC, News, Wake, queue_of, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.records import ClaimRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

    from django_mq.engine.decisions.selection import Wanted
    from django_mq.notifications.base import Listener, Registration
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, ClaimResult, ConsumerInfo, WorkerCommand

NO_SELECTIONS: Mapping[str, Sequence[Wanted]] = MappingProxyType({})
#: The wake's topic when credit came back: no reason to look if nothing was left behind.
CREDIT = "credit"
#: Time between two looks which queues are paused, while the session holds something.
RECALL_SECONDS = 5.0
#: No queue has a limit of bytes.
NO_LIMITS: Mapping[str, ByteCredit] = MappingProxyType({})


class ConsumerRuntime:
    """One session that consumes. It opens, as a row of the database, with the first claim."""

    def __init__(
        self,
        alias: str,
        *,
        kind: str,
        driver: Driver,
        queues: tuple[str, ...] = (),
        listed: bool = False,
        in_order: frozenset[str] = frozenset(),
    ) -> None:
        self.wake = Wake()
        self._driver = driver
        self.session = Session(
            alias,
            kind=kind,
            wake=self.wake,
            driver=replace(
                driver,
                queues=lambda: self.fetcher.consumed,
                describe=self._describe,
                on_command=self._on_command,
                came_back=lambda seconds: self.fetcher.came_back(seconds),  # noqa: PLW0108 - made below
            ),
        )
        self.fetcher = Fetcher(self.session, queues, listed=listed, in_order=in_order)
        self._listener = notifier().listen(self.wake)
        self._registration = IdleRegistration(self._listener, self.fetcher, priority=self._priority)
        # When the last look was, and a factor for the time until the next: many workers do not look in step.
        self._looked_at, self._spread = time.monotonic(), 1.0
        self._claimed_at = float("-inf")
        self._marker: int | None = None
        # Whether the listener hears of more than durable queues.
        self._hears_others = False
        # When to look again for paused queues, and those of which everything was given back that had not begun.
        self._recall_at = 0.0
        self._paused: Set[str] = frozenset()

    # Called by the session, in part in the heartbeat's thread.

    def _describe(self) -> Workload:
        if self.session.retired:
            return Workload()  # its consumers and slots are those of the next session
        load, quiet, notified = self._driver.describe(), self.session.quiet, self._registration.notified
        loop, leaves = self._driver.loop(), self._driver.leaves()
        stands = loop is not None and loop.state is not LoopState.TURNS and not leaves
        common = "stopping" if quiet or leaves else "still" if stands else ""
        consumers = []
        for info in load.consumers:
            state = common or ("notified" if info.queue_name in notified else info.state)
            consumers.append(self._as_shown(replace(info, state=state)))
        return replace(load, consumers=tuple(consumers))

    def _as_shown(self, info: ConsumerInfo) -> ConsumerInfo:
        """Return the consumer as busy, and left no message, if its bytes are used up; or as having given back."""
        if self.fetcher.is_out_of_bytes(info.queue_name):
            info = replace(info, state="busy", credit_used=info.credit_limit)
        return replace(info, state="paused") if info.queue_name in self._paused else info

    def _on_command(self, told: WorkerCommand) -> None:
        self._driver.on_command(told)
        self.wake.set(CREDIT)

    def _priority(self) -> int:
        return max((info.priority for info in self._driver.describe().consumers), default=0)

    # Claiming.

    @property
    def consumes(self) -> bool:
        """Whether it has claimed, or has queues to claim from."""
        return bool(self.fetcher.consumed) or self.session.id is not None

    def subscribe(self, queues: Iterable[str], other_topics: Iterable[str] = ()) -> None:
        """Claim from exactly these queues, and listen to their hints and to other topics."""
        queues, others = tuple(dict.fromkeys(queues)), tuple(other_topics)
        self._hears_others = bool(others)
        self._listener.subscribe([WORKERS_TOPIC, *map(queue_topic, queues), *others])
        self.fetcher.consume(queues)

    def claim(
        self,
        limits: Mapping[str, int],
        *,
        credit: int,
        slots: int,
        refill: int | Mapping[str, int],
        byte_credit: Mapping[str, ByteCredit] = NO_LIMITS,
        wanted: Mapping[str, Sequence[Wanted]] = NO_SELECTIONS,
        ahead: int = 0,
    ) -> list[Claimed]:
        """Claim, settle, or do nothing, as the fetcher decides; return the claimed messages in order.

        ``limits`` names the queues to claim from now, and how much of each; ``wanted`` has the selectors of the
        handlers, where they have some; ``ahead`` is as in ClaimRequest. Raises SessionLost and other StoreErrors.
        """
        if self.session.quiet:
            limits, credit = {}, 0
        self.fetcher.restrict(tuple(limits), limits, byte_credit, wanted)
        claimed = self.fetcher.fetch(credit=credit, slots=slots, refill=refill, ahead=ahead)
        if claimed:
            self._claimed_at = time.monotonic()
            if self._paused:
                self._show_paused(self._paused - {message.queue_name for message in claimed})
        return claimed

    def recall(self, give_back: Callable[[Set[str]], object]) -> None:
        """Have the driver give back what has not begun of paused queues, and show when it has. Raises StoreError.

        While the session holds something, it sees at hints, and every few seconds, which queues are paused.
        """
        session = self.session
        if time.monotonic() < self._recall_at or not (session.held or self._paused):
            return
        self._recall_at = time.monotonic() + RECALL_SECONDS
        paused = session.store.queues.paused(self.fetcher.consumed)
        if paused:
            give_back(paused)
            if session.settlements:
                session.settle_and_claim(None)  # before the renewal that an operator waits for
        self._show_paused(paused)

    def _show_paused(self, queues: Set[str]) -> None:
        if queues != self._paused:
            self._paused = queues
            self.session.renew_soon()

    # Waiting.

    def settle_down(self, queues: Collection[str], *, able: bool) -> bool:
        """Register as idle before waiting, if ``able`` to begin a message at once. Return False to claim first."""
        able_from = tuple(queue for queue in queues if queue not in self.fetcher.short)
        return self._registration.settle_down(able_from, able=able and not self.session.quiet)

    def wait(self, seconds: float | None) -> None:
        """Wait for a hint, for returning credit, or for so long."""
        loop = self._driver.loop()
        if loop is not None:
            loop.turn(waits_seconds=seconds or 0.0)
        self.wake.wait(seconds, clear=False)

    def hear(self) -> Set[str]:
        """Take the wake-up, and return its topics."""
        self.wake.clear()
        topics = self.wake.take_topics()
        if WORKERS_TOPIC in topics:
            self.session.renew_soon()
        if ANY in topics or any(topic.startswith(queue_topic("")) for topic in topics):
            self._recall_at = 0.0  # an operator may have paused a queue, or resumed it
        self._registration.hear(topics)
        return topics

    def poll(self) -> bool:
        """Look if a look is due: seldom where hints arrive, often where none can. Return whether one was."""
        marker = self.session.store.database.change_marker()
        changed = marker is not None and marker != self._marker
        self._marker = marker
        due = changed or self._seconds_until_look() <= 0
        if due:
            self._looked_at, self._recall_at = time.monotonic(), 0.0
            self._spread = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
            self.fetcher.look()
        return due

    def _seconds_until_look(self) -> float:
        idle_seconds = time.monotonic() - self._claimed_at
        every_seconds = poll_seconds(self.session.store, self._listener, idle_seconds) * self._spread
        last = self._looked_at
        if self.hears and not self._hears_others:
            # The heartbeat looks, too, but at durable queues only; and without hints, one may have been missed.
            last = max(last, self.session.looked_at)
        return max(0.0, last + every_seconds - time.monotonic())

    @property
    def poll_interval_seconds(self) -> float:
        """How often ``poll`` should be called."""
        if self.session.store.features.notices_changes:
            return MARKER_SECONDS
        seconds = conf.load().POLL_SECONDS
        return seconds if notifier().reaches_others else look_seconds(0.0, seconds)

    def wait_seconds(self) -> float:
        """Return how long to wait at most."""
        waits = [self._seconds_until_look(), self.seconds_until_due()]
        if self.session.store.features.notices_changes:
            waits.append(MARKER_SECONDS)
        return min(seconds for seconds in waits if seconds is not None)

    def seconds_until_due(self) -> float | None:
        """Return in how many seconds to claim or settle down again, even if nothing happens; None for never."""
        times = [self.fetcher.seconds_until_due(), self._registration.seconds_until_question()]
        if self.session.settlements.ended:
            times.append(LINGER_SECONDS)
        return min((seconds for seconds in times if seconds is not None), default=None)

    @property
    def hears(self) -> bool:
        """Whether hints arrive now."""
        return self._listener.connected

    @property
    def at_work(self) -> bool:
        """Whether the session is not registered as idle: once it has a free slot, call ``settle_down``."""
        return self._registration.at_work

    # Ends.

    def leave(self) -> None:
        """Hear no more hints, and hand on the notifications that no claim has followed."""
        self._registration.leave()
        self._listener.close()

    def retire(self, unstarted: Iterable[Claimed] = ()) -> None:
        """Claim no more and give back what was not begun; the session closes when what runs is settled."""
        self.leave()
        self.session.retire(unstarted)
        self.wake.close()

    def close(self) -> None:
        """Settle and give back everything."""
        self.leave()
        self.session.close()
        self.wake.close()


NEVER = float("inf")


class LastClaim(NamedTuple):
    """What the last claim has found."""

    #: Whether it began at the head of the queues: what it did not find was not there.
    sure: bool = False
    #: Whether it was from queues with rules, where each settlement may make others ready.
    constrained: bool = False
    #: Its queues that have groups.
    grouped: frozenset[str] = frozenset()
    #: Whether it brought nothing, and the ready messages may be for other sessions.
    found_none: bool = False
    #: The queue of its last message, or of an earlier claim's.
    served: str = ""


class Fetcher:
    """Decides when one session claims; call ``fetch`` whenever anything may have changed.

    A claim that brought less than its limit found the queues empty: no second claim follows until a hint, a due
    time or the safety poll says ``look``. A claim that reached its limit leaves a ``backlog``: the next one
    follows when credit is back. Each queue keeps its reason to claim until it has credit.
    """

    def __init__(
        self,
        session: Session,
        queues: tuple[str, ...] = (),
        *,
        listed: bool = False,
        in_order: frozenset[str] = frozenset(),
    ) -> None:
        self.session = session
        self.listed = listed
        #: The queues for which the driver runs the messages of a group one after the other.
        self.in_order = in_order
        #: The queues of the session, and those of them to claim from now.
        self.consumed = queues
        self.queues: tuple[str, ...] = ()
        # How much of each queue may be claimed; empty for as much of each as of all.
        self._limits: Mapping[str, int] = {}
        self._byte_credit = NO_LIMITS
        #: The queues in which the last claim may have left a message that is larger than the byte credit, and how
        #: much of it was free.
        self.short: dict[str, int] = {}
        # What the handlers want, of the queues that they select messages from.
        self._wanted: Mapping[str, Sequence[Wanted]] = NO_SELECTIONS
        # Queues in which the last claim left messages, and those that may have got some since.
        self._left: set[str] = set()
        self._news: set[str] = set(queues)
        # Whether messages came back, so that the next claim begins at the head of the queue.
        self._full_scan = True
        #: What the last claim has found.
        self.last = LastClaim()
        # Whether scheduled messages may be due now; the answer to each claim says when the next one is due.
        self._promote = True
        #: When the earliest scheduled message is due, on the monotonic clock, as far as is known.
        self.due_at = NEVER
        # Whether the last claim had no free slot to offer, which suspect messages wait for.
        self._slotless = False
        # A claim that timed out is repeated with fewer bytes.
        self._bytes = ClaimBytes()

    def came_back(self, seconds: float) -> None:
        """Claim, from the head of the queue, in so many seconds: a message of this session was given back."""
        self._full_scan = True
        self.due_at = min(self.due_at, time.monotonic() + seconds)

    def look(self, *, full_scan: bool = False) -> None:
        """Claim at the next chance. With ``full_scan``, begin at the head of the queue."""
        self._news.update(self.consumed, self.queues)
        self._full_scan = self._full_scan or full_scan

    def consume(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues from now on."""
        self.queues = self.consumed = queues
        self._limits = {}
        self._byte_credit, self.short = NO_LIMITS, {}
        self._promote = True
        self.look()

    def restrict(
        self,
        queues: tuple[str, ...],
        limits: Mapping[str, int] | None = None,
        byte_credit: Mapping[str, ByteCredit] = NO_LIMITS,
        wanted: Mapping[str, Sequence[Wanted]] = NO_SELECTIONS,
    ) -> None:
        """Claim from these only, for now: at most so many messages and bytes of each, and what is ``wanted``."""
        self._limits, self._byte_credit, self._wanted = limits or {}, byte_credit, wanted
        if queues == self.queues:
            return
        self._news.update(set(queues).difference(self.queues))
        self.queues = queues

    def fetch(
        self, *, credit: int, slots: int, refill: int | Mapping[str, int] = 1, ahead: int = 0
    ) -> list[Claimed]:
        """Claim if there is a reason to, or write pressing settlements; return the claimed messages in order.

        Without a free slot a claim waits until ``refill`` credit has gathered, altogether or in a queue that may
        have messages: one round trip then brings several. Raises SessionLost and StoreUnavailable.
        """
        answer = self.answer(credit=credit, slots=slots, refill=refill, ahead=ahead)
        if isinstance(answer, ClaimRequest):
            return self._claim(answer)
        # With a backlog the next claim is near, and takes the settlements along.
        settlements = self.session.settlements
        if settlements.late() if self.backlog else settlements.pressing():
            self.session.settle_and_claim(None)
        return []

    def answer(
        self, *, credit: int, slots: int, refill: int | Mapping[str, int] = 1, ahead: int = 0
    ) -> ClaimRequest | float:
        """Return the claim to make now, or the time on the monotonic clock until which to wait for a reason."""
        self._notice(slots)
        return self._request(credit, slots, ahead) if self._wants_claim(credit, slots, refill) else self.due_at

    def _notice(self, slots: int) -> None:
        """Look if a message is due, a slot is free again, or a settlement may make messages ready."""
        if self.is_due:
            # Without credit, a time that has passed would make the driver loop without end.
            self._promote, self.due_at = True, NEVER
            self.look()
        if self._slotless and slots > 0:
            self._slotless = False
            self.look()
        for queue, free in list(self.short.items()):
            self._notice_bytes(queue, free, slots)
        if self.last.constrained and self.session.settlements.ended:
            self.look()

    def _notice_bytes(self, queue: str, free: int, slots: int) -> None:
        """Look again in a queue whose first message was too large, when more bytes are free than then."""
        now = self._byte_credit.get(queue)
        if now is None or not now.held or (now.free > free and (slots > 0 or now.is_worth_a_claim)):
            del self.short[queue]
            self._news.add(queue)

    def _wants_claim(self, credit: int, slots: int, refill: int | Mapping[str, int]) -> bool:
        if credit <= 0 or not self.queues or self.session.retired:
            return False
        return bool(self._promising) and (slots > 0 or self.has_gathered(credit, refill))

    @property
    def _promising(self) -> set[str]:
        """The queues to claim from now that may have something."""
        return (self._news | self._left).intersection(self.queues)

    def has_gathered(self, credit: int, refill: int | Mapping[str, int]) -> bool:
        """Whether there is enough credit for a claim that no free slot waits for."""
        if isinstance(refill, int):
            return credit >= refill and (not self._byte_credit or any(map(self._has_bytes, self._promising)))
        return any(
            self._limits.get(queue, credit) >= refill[queue] and self._has_bytes(queue)
            for queue in self._promising
        )

    def _has_bytes(self, queue: str) -> bool:
        given = self._byte_credit.get(queue)
        return given is None or given.is_worth_a_claim

    def _request(self, credit: int, slots: int, ahead: int) -> ClaimRequest:
        queues = self._in_turn()
        return ClaimRequest(
            queues=queues,
            credit=credit,
            slots=max(slots, 0),
            ahead=ahead,
            listed=self.listed,
            promote=self._promote,
            full_scan=self._full_scan,
            max_bytes=self._bytes.amount,
            limits=self._limits,
            byte_credit={queue: self._byte_credit[queue] for queue in queues if queue in self._byte_credit},
            in_order=self.in_order,
            wanted=self._wanted,
        )

    def _claim(self, request: ClaimRequest) -> list[Claimed]:
        # Before the question: a hint that arrives during the claim is a reason for the next.
        self._news.difference_update(request.queues)
        self._full_scan = False
        begin = time.monotonic()
        try:
            result = self.session.settle_and_claim(request)
        except BaseException as error:
            self._promote = True
            self.look(full_scan=True)
            if isinstance(error, StoreUnavailable):
                self._bytes.failed()
            raise
        if self._bytes.is_reduced:
            size_bytes = sum(len(message.body) for message in result.claimed)
            self._bytes.brought(size_bytes, time.monotonic() - begin, conf.load().STATEMENT_TIMEOUT_SECONDS)
        self._promote = False
        self._left.difference_update(request.queues)
        self._left |= result.left
        self._note_short(request, result)
        self.last = LastClaim(
            sure=result.full_scan and not self.short,
            constrained=result.constrained,
            grouped=result.grouped,
            found_none=not result.claimed and (result.constrained or result.declined or bool(request.wanted)),
            served=result.claimed[-1].queue_name if result.claimed else self.last.served,
        )
        self._slotless = request.slots <= 0 and not result.claimed
        due = result.next_due_seconds
        self.due_at = NEVER if due is None else time.monotonic() + due
        return result.claimed

    def is_out_of_bytes(self, queue: str) -> bool:
        """Whether no message, or not the first one, fits into the byte credit of a queue."""
        given = self._byte_credit.get(queue)
        return queue in self.short or (given is not None and not given.is_open)

    def _note_short(self, request: ClaimRequest, result: ClaimResult) -> None:
        """Note the queues that brought nothing while part of their byte credit is used."""
        for queue, given in request.byte_credit.items():
            if given.held and not any(message.queue_name == queue for message in result.claimed):
                self.short[queue] = given.free
                self._left.discard(queue)

    @property
    def backlog(self) -> bool:
        """Whether messages were left in the queues to claim from now; without such queues, in any."""
        return bool(self._left.intersection(self.queues) if self.queues else self._left)

    def _in_turn(self) -> tuple[str, ...]:
        """Return the queues, the one served last at the end.

        The store breaks ties by this order: claims of one message would serve the first queue only.
        """
        if self.listed or self.last.served not in self.queues:
            return self.queues
        after = self.queues.index(self.last.served) + 1
        return self.queues[after:] + self.queues[:after]

    @property
    def looking(self) -> bool:
        """Whether there is a reason to claim that no claim has followed."""
        return bool(self._news.intersection(self.queues) if self.queues else self._news)

    @property
    def has_reason(self) -> bool:
        """Whether there is any reason to claim, were there credit."""
        return bool(self._news or self._left) or self.is_due

    @property
    def is_due(self) -> bool:
        """Whether a message that was scheduled, or given back, may be ready now."""
        return time.monotonic() >= self.due_at

    def expect(self, seconds: float | None) -> None:
        """Look in so many seconds, when a message is due; None if another session does."""
        self.due_at = NEVER if seconds is None else time.monotonic() + seconds

    def seconds_until_due(self) -> float | None:
        """Return how long until the earliest scheduled message is due, None if none is known."""
        return None if self.due_at == NEVER else max(0.0, self.due_at - time.monotonic())


#: Time between two looks at SQLite's change marker, in seconds: the look costs microseconds.
MARKER_SECONDS = 0.02


#: For so long after a session has claimed something, in seconds, it looks often: more may follow.
ACTIVE_SECONDS = 10.0
#: How often it looks then, and later, as parts of POLL_SECONDS. In each minute without a message there are fewer
#: looks than one in POLL_SECONDS.
ACTIVE_PART, IDLE_PART = 1 / 3, 2.0


def look_seconds(idle_seconds: float, poll_seconds: float) -> float:
    """Return the time between two looks where no hint comes, so long after the last message was claimed."""
    return poll_seconds * (ACTIVE_PART if idle_seconds < ACTIVE_SECONDS else IDLE_PART)


def poll_seconds(store: Store, listener: Listener | None, idle_seconds: float = ACTIVE_SECONDS) -> float:
    """Return the time between two looks: long where hints arrive or the store notices changes, short elsewhere."""
    settings = conf.load()
    hears = listener is not None and listener.connected and notifier().reaches_others
    if not hears and not store.features.notices_changes:
        return look_seconds(idle_seconds, settings.POLL_SECONDS)
    if store.features.looks_when_renewed and settings.SAFETY_POLL_SECONDS * RENEWALS >= settings.SESSION_SECONDS:
        # The heartbeat looks in time (``Session.looked_at``); this is for when it cannot.
        return max(settings.SAFETY_POLL_SECONDS, settings.SESSION_SECONDS)
    return settings.SAFETY_POLL_SECONDS


#: How late another session may claim a due message before this one registers again to see, in seconds.
GRACE_SECONDS = 0.2
#: Due times that differ by less, in seconds, are the same.
SAME_SECONDS = 0.001


class IdleRegistration:
    """The registration of one session as idle: registered sessions are notified of news."""

    def __init__(self, listener: Listener, fetcher: Fetcher, *, priority: Callable[[], int] = int) -> None:
        self._listener = listener
        self._fetcher = fetcher
        self._priority = priority
        # The queues of the registration, none while the session is at work; and the due time given with it.
        self._queues: tuple[str, ...] = ()
        self._due_at = NEVER
        self._renew_at = 0.0
        # When to register again, to see whether another session has claimed what was due.
        self._ask_at: float | None = None
        #: Queues for which the session was notified, and has neither claimed nor handed the notification on.
        self.notified: set[str] = set()
        # Queues in which other sessions rely on this one to look when a message is due.
        self._armed: tuple[str, ...] = ()

    def hear(self, topics: Collection[str]) -> None:
        """Take the topics of the wake: remember notifications, and look if there may be something."""
        notifications = [topic for topic in topics if topic[:2] in {"n:", "b:"}]
        if notifications or ANY in topics:
            self._queues = ()  # a notification, and a lost connection, end the registration
        self.notified.update(map(queue_of, notifications))
        # Messages that came back, or were changed by an operator, may stand before the cursor.
        full_scan = ANY in topics or any(topic[:2] in {"b:", "q:"} for topic in topics)
        if notifications or full_scan or LOOK in topics:
            self._fetcher.look(full_scan=full_scan)

    def settle_down(self, queues: tuple[str, ...], *, able: bool) -> bool:
        """Register before the driver waits, if ``able`` to claim at once. Return False if it must look first."""
        able = able and bool(queues) and not self._fetcher.session.retired
        cannot = self._fetcher.backlog or self._fetcher.looking or self.notified.intersection(self._fetcher.short)
        if self.notified and cannot:
            self._hand_on(self.notified)
        if self.notified and self._fetcher.last.found_none:
            self._pass_on(self.notified)
        if self._is_late() and not able:
            self._hand_on(self._armed)
            self._armed = ()  # once is enough
        if not able:
            self._be_at_work()
        elif self._needs_saying(queues):
            self._register(queues)
        return not (able and self._fetcher.looking)

    @property
    def at_work(self) -> bool:
        """Whether the session is not registered."""
        return not self._queues

    def _is_late(self) -> bool:
        """Whether a message is due for which other sessions rely on this one."""
        return bool(self._armed) and self._fetcher.looking and self._fetcher.due_at == NEVER

    def _hand_on(self, queues: Collection[str]) -> None:
        """Notify other sessions of messages that this one cannot claim, or not all of them."""
        self._be_at_work()
        notifier().announce(dict.fromkeys(queues, News(messages=1)))

    def _pass_on(self, queues: Collection[str]) -> None:
        """Wake all sessions for messages that the queue's rules, or selectors, keep from this one."""
        notifier().send(map(queue_topic, queues))
        self.notified = set()

    def _be_at_work(self) -> None:
        if self._queues or self.notified:
            self._listener.withdraw(self.notified)
        self._queues, self.notified, self._ask_at = (), set(), None

    def _needs_saying(self, queues: tuple[str, ...]) -> bool:
        if queues != self._queues or self.notified:
            return True
        if self.seconds_until_question() == 0.0:
            return True
        due_at = self._fetcher.due_at
        return due_at != self._due_at and abs(due_at - self._due_at) >= SAME_SECONDS

    def _register(self, queues: tuple[str, ...]) -> None:
        following = self._ask_at is not None and self._fetcher.due_at == NEVER
        registered = self._listener.register_idle(
            queues,
            due_seconds=self._fetcher.seconds_until_due(),
            following=following,
            priority=self._priority(),
        )
        self._queues, self.notified = queues, set()
        seconds = conf.load().SAFETY_POLL_SECONDS
        if self._listener.connected:  # otherwise it is not registered, and tries again soon
            seconds = self._listener.renewal_seconds or seconds
        self._renew_at = time.monotonic() + seconds
        self._wait_for_due(registered)
        if registered.missed:
            self._fetcher.look()

    def _wait_for_due(self, registered: Registration) -> None:
        """Look when the next message is due, or leave that to another session."""
        self._armed = () if registered.due_seconds is None else self._queues
        if registered.due_seconds is None:
            self._fetcher.expect(None)
        elif self._fetcher.due_at == NEVER:
            self._fetcher.expect(registered.due_seconds)
        self._due_at = self._fetcher.due_at
        ask = registered.ask_seconds
        self._ask_at = None if ask is None else time.monotonic() + ask + GRACE_SECONDS

    def seconds_until_question(self) -> float | None:
        """Return in how many seconds to call ``settle_down`` again even if nothing happens, None for never."""
        if self.at_work:
            return None
        asks = self._renew_at if self._ask_at is None else min(self._ask_at, self._renew_at)
        return max(0.0, asks - time.monotonic())

    def leave(self) -> None:
        """Unregister, and hand on the notifications that no claim has followed."""
        if self.notified:
            self._hand_on(self.notified)
        self._be_at_work()
