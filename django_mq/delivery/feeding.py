"""When to claim, and how much: woken by hints, by due times, and by credit that comes back."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.engine.claim import ClaimBytes
from django_mq.errors import StoreUnavailable
from django_mq.notifications.registry import notifier
from django_mq.stores.records import ClaimRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.delivery.session import Session
    from django_mq.notifications.base import Listener
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed

NEVER = float("inf")


class Feeder:
    """Decides for one session; the driver calls ``pump`` whenever anything may have changed.

    A claim that came back short means the queues were empty at that moment: no second
    claim follows until a hint, a due time or the safety poll says ``look``. A claim that
    was cut by its limit leaves a ``backlog``, and returning credit continues by itself.
    Reasons are kept for each queue: one that has no credit now keeps its own until it has.
    """

    def __init__(self, session: Session, *, listed: bool = False) -> None:
        self.session = session
        self.listed = listed
        self.queues: tuple[str, ...] = ()
        # How much of each queue may be claimed; empty for as much of each as of all.
        self._limits: Mapping[str, int] = {}
        # Queues in which the last claim left something, and those that may have got something since.
        self._left: set[str] = set()
        self._news: set[str] = set(session.queues)
        # Whether something came back, so that the next claim begins at the head.
        self._whole = True
        #: Whether the last claim began there: what it did not find was not there.
        self.sure = False
        # Whether something may be due now; the answer to each claim says when the next one is.
        self._promote = True
        self._due_at = NEVER
        # The queue of the message claimed last.
        self._served = ""
        # The last claim had no free slot to offer, which suspect messages wait for.
        self._slotless = False
        #: Whether the last claim was from queues with rules, where each settlement may make others ready.
        self.ruled = False
        #: Whether that claim brought nothing: what is ready there may be for others.
        self.ruled_out = False
        # A claim that did not arrive in time is repeated with fewer bytes.
        self._bytes = ClaimBytes()
        session.on_given_back = self._expect

    def _expect(self, seconds: float) -> None:
        """A message of this session was given back: claim when it is due, which may be now.

        It stands where this session has been, and the keeper, who may have written it, claims nothing.
        """
        self._whole = True
        self._due_at = min(self._due_at, time.monotonic() + seconds)

    def look(self, *, whole: bool = False) -> None:
        """Claim at the next chance: there may be something, with ``whole`` even where this session has been."""
        self._news.update(self.session.queues, self.queues)
        self._whole = self._whole or whole

    def consume(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues from now on."""
        self.queues = self.session.queues = queues
        self._limits = {}
        self._promote = True
        self.look()

    def restrict(self, queues: tuple[str, ...], limits: Mapping[str, int] | None = None) -> None:
        """Claim from these only, for now, at most so many of each; looks again when one comes back."""
        self._limits = limits or {}
        if queues == self.queues:
            return
        self._news.update(set(queues).difference(self.queues))
        self.queues = queues

    def pump(self, *, credit: int, slots: int, refill: int | Mapping[str, int] = 1) -> list[Claimed]:
        """Claim if there is reason to, and write settlements that press; return the claimed, in order.

        With no free slot a claim waits until ``refill`` credit has gathered, altogether or of a queue
        that may have something: what is prefetched cannot start anyway, and one round trip then serves
        several messages. Raises SessionLost and StoreUnavailable.
        """
        self._notice(slots)
        if self._wants_claim(credit, slots, refill):
            return self._claim(credit, slots)
        # Where messages were left behind the next claim is near, and takes a crowd along.
        settlements = self.session.settlements
        if settlements.late() if self.backlog else settlements.pressing():
            self.session.exchange(None)
        return []

    def _notice(self, slots: int) -> None:
        """Turn what time and slots have brought into a reason to look."""
        if time.monotonic() >= self._due_at:
            # Forgotten as a time: without credit it would make the driver turn without end.
            self._promote, self._due_at = True, NEVER
            self.look()
        if self._slotless and slots > 0:
            self._slotless = False
            self.look()
        if self.ruled and self.session.settlements:
            self.look()

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
            return credit >= refill
        return any(self._limits.get(queue, credit) >= refill[queue] for queue in self._promising)

    def _claim(self, credit: int, slots: int) -> list[Claimed]:
        queues = self._in_turn()
        request = ClaimRequest(
            queues=queues,
            credit=credit,
            slots=max(slots, 0),
            listed=self.listed,
            promote=self._promote,
            whole=self._whole,
            max_bytes=self._bytes.amount,
            limits=self._limits,
        )
        # Cleared before asking: a hint that arrives while the database answers must survive.
        self._news.difference_update(queues)
        self._whole = False
        begin = time.monotonic()
        try:
            result = self.session.exchange(request)
        except BaseException as error:
            self._promote = True
            self.look(whole=True)
            if isinstance(error, StoreUnavailable):
                self._bytes.failed()
            raise
        if self._bytes.is_reduced:
            size_bytes = sum(len(message.body) for message in result.claimed)
            self._bytes.brought(size_bytes, time.monotonic() - begin, conf.load().STATEMENT_TIMEOUT_SECONDS)
        self._promote, self.sure = False, result.whole
        if result.claimed:
            self._served = result.claimed[-1].queue_name
        self._left.difference_update(queues)
        self._left |= result.left
        self.ruled = result.ruled
        self.ruled_out = result.ruled and not result.claimed
        self._slotless = slots <= 0 and not result.claimed
        due = result.next_due_seconds
        self._due_at = NEVER if due is None else time.monotonic() + due
        return result.claimed

    @property
    def backlog(self) -> bool:
        """Whether something was left in the queues to claim from now; with credit for none, in any."""
        return bool(self._left.intersection(self.queues) if self.queues else self._left)

    def _in_turn(self) -> tuple[str, ...]:
        """Return the queues, the one served last at the end.

        The store breaks ties by the list: claims of one message would serve its first queue only.
        """
        if self.listed or self._served not in self.queues:
            return self.queues
        after = self.queues.index(self._served) + 1
        return self.queues[after:] + self.queues[:after]

    @property
    def looking(self) -> bool:
        """Whether there is a reason to claim that no claim has followed."""
        return bool(self._news.intersection(self.queues) if self.queues else self._news)

    @property
    def restless(self) -> bool:
        """Whether there is any reason to claim, were there credit."""
        return bool(self._news or self._left) or time.monotonic() >= self._due_at

    @property
    def due_at(self) -> float | None:
        """When the earliest scheduled message is due, on this machine's clock; None if none is known."""
        return None if self._due_at == NEVER else self._due_at

    def expect(self, seconds: float | None) -> None:
        """Look in so many seconds because something is due then; None: another session does."""
        self._due_at = NEVER if seconds is None else time.monotonic() + seconds

    def seconds_until_due(self) -> float | None:
        """Return how long until the earliest scheduled message is due, None if none is known."""
        return None if self._due_at == NEVER else max(0.0, self._due_at - time.monotonic())


#: Time between two looks at SQLite's change marker, in seconds: the look costs microseconds.
MARKER_SECONDS = 0.02
#: A session is renewed so often before its deadline.
RENEWALS = 2.25


def poll_seconds(store: Store, listener: Listener | None) -> float:
    """Return the time between two looks: seldom where hints or a change marker tell, often where nothing does."""
    settings = conf.load()
    hears = listener is not None and listener.connected and notifier().reaches_others
    if not hears and not store.features.notices_changes:
        return settings.POLL_SECONDS
    if store.features.looks_when_renewed and settings.SAFETY_POLL_SECONDS * RENEWALS >= settings.SESSION_SECONDS:
        # The keeper looks in time (``Session.looked_at``); this is for when it cannot.
        return max(settings.SAFETY_POLL_SECONDS, settings.SESSION_SECONDS)
    return settings.SAFETY_POLL_SECONDS


class Polls:
    """When a driver's next look is due; jitter keeps a fleet from looking in step."""

    def __init__(self) -> None:
        self._polled_at = time.monotonic()
        self._spread = 1.0

    def due(self, every_seconds: float, looked_at: float = 0.0) -> bool:
        """Whether to look now; if so, the time until the next look begins."""
        if self.seconds(every_seconds, looked_at) > 0:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Begin the time until the next look anew: there has been one."""
        self._polled_at = time.monotonic()
        self._spread = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret

    def seconds(self, every_seconds: float, looked_at: float = 0.0) -> float:
        """Return how long until the next look; another thread has made one at ``looked_at`` (monotonic)."""
        since = max(self._polled_at, looked_at)
        return max(0.0, since + every_seconds * self._spread - time.monotonic())
