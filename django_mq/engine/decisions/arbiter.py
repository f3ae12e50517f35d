"""Which ready messages of a queue a session may claim, given the other sessions.

A store reads a page of the ready messages in delivery order and the facts about the other sessions;
the arbiter decides. It first assigns messages to the sessions of higher consumer priority, as far as they
could really claim them: with a slot, within the limit in flight, of their own or free groups, within
their credit, and a suspect only if they could begin it at once. No other message is left
to them. The in-process queue calls the same functions for its consumers.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django_mq.engine.options import QueueOptions

#: The options that ``situation_of`` reads, for a store that reads no others.
OPTIONS = ("grouping", "strict", "exclusive", "max_in_flight", "max_consumers")
#: How many messages a consumer without a credit limit claims at a time.
MOST_AT_A_TIME = 1000
#: After how many seconds to look again for messages left to a better session, which may not have claimed them.
LEFT_SECONDS = 0.5


R = TypeVar("R")


def _anything(_: object) -> bool:
    """Return True: the selector of a consumer that takes every message."""
    return True


def may_receive(receiver: object, receiving: Collection[object], slots: int | None) -> bool:
    """Whether a receiver has one of the slots, or could take one; None is no limit."""
    return slots is None or receiver in receiving or len(receiving) < slots


def may_share(owner: object, receiver: object) -> bool:
    """Whether a receiver may have messages of a group with this owner; None is no owner."""
    return owner is None or owner == receiver


def first_taker(better: Iterable[R], could_have: Callable[[R], bool]) -> R | None:
    """Return the first of the better receivers, best first, that could have a message; None if none could."""
    return next(filter(could_have, better), None)


class Candidate(Protocol):
    """A ready message: whether it is suspect, its group, and the session that owns the group."""

    @property
    def suspect(self) -> bool: ...
    @property
    def group(self) -> str | None: ...
    @property
    def owner(self) -> int | None: ...


C = TypeVar("C", bound=Candidate)


class Subscription(NamedTuple):
    """One consumer of the queue as of its session's last heartbeat, and the messages that the session holds of it.

    A ``credit`` of 0 is no limit. ``used`` is the credit used in all queues that share it.
    ``full``: the session has no free slot. ``wants`` is called with a candidate.
    """

    session: int
    priority: int
    credit: int
    used: int
    stopping: bool
    held: int
    full: bool = False
    wants: Callable[[Any], bool] = _anything


class Rival(NamedTuple):
    """A session of higher priority, how many more messages it has credit for, and whether it has no free slot.

    Each of ``wants`` says whether one consumer of the session wants a candidate.
    """

    session: int
    priority: int
    credit: int
    full: bool = False
    wants: Sequence[Callable[[Any], bool]] = (_anything,)


def rivals_of(session: int, subscriptions: Iterable[Subscription]) -> list[Rival]:
    """Return the sessions that have consumers of higher priority in the queue, the highest first."""
    others: dict[int, list[Subscription]] = {}
    given = list(subscriptions)
    mine = max((item.priority for item in given if item.session == session), default=0)
    for item in given:
        if item.session != session and item.priority > mine and not item.stopping:
            others.setdefault(item.session, []).append(item)
    rivals = [
        Rival(
            other,
            max(item.priority for item in told),
            _free(told),
            any(item.full for item in told),
            tuple(dict.fromkeys(item.wants for item in told)),
        )
        for other, told in others.items()
    ]
    return sorted(rivals, key=lambda rival: (-rival.priority, rival.session))


def _free(told: Sequence[Subscription]) -> int:
    if any(item.credit == 0 for item in told):
        return MOST_AT_A_TIME
    used = max(max(item.used, item.held) for item in told)
    return max(0, sum(item.credit for item in told) - used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The state of a queue that decides about a claim; None is no limit.

    ``slots`` is how many sessions may receive, ``in_slots`` those that do. ``in_flight`` is how many
    more messages may be claimed. With ``grouped``, only one message of a group is claimed at a time, and the
    ``waiting`` groups have one that is claimed or waits for its next attempt. With ``assigned``, a group stays
    with its first session. A ``strict`` queue ends at a message that is locked.
    """

    slots: int | None = None
    in_slots: frozenset[int] = frozenset()
    in_flight: int | None = None
    grouped: bool = False
    assigned: bool = False
    strict: bool = False
    waiting: frozenset[str] = frozenset()
    rivals: Sequence[Rival] = ()

    def takes_slot(self, session: int) -> bool:
        """Whether the session takes a slot with its first message."""
        return self.slots is not None and session not in self.in_slots

    def takes_group(self, item: Candidate) -> bool:
        """Whether the session becomes the owner of the message's group."""
        return self.assigned and item.group is not None and item.owner is None


def situation_of(
    queue: QueueOptions,
    session: int,
    *,
    in_slots: frozenset[int] = frozenset(),
    claimed: int = 0,
    waiting: frozenset[str] = frozenset(),
    subscriptions: Iterable[Subscription] = (),
) -> Situation:
    """Return the situation of a claim from the queue's options and the facts; ``claimed`` are in flight."""
    return Situation(
        slots=queue.slots,
        in_slots=in_slots,
        in_flight=None if queue.max_in_flight is None else queue.max_in_flight - claimed,
        grouped=queue.has_groups,
        assigned=queue.groups_stay,
        strict=queue.strict,
        waiting=waiting,
        rivals=rivals_of(session, subscriptions),
    )


class Award(Generic[C]):
    """The messages that a session may claim of one queue, decided page by page of its ready messages.

    ``chosen`` are these messages, in order; ``left`` says whether messages were left to better
    sessions, ``is_done`` that no further message could be chosen.
    """

    def __init__(self, session: int, credit: int, situation: Situation) -> None:
        self.chosen: list[C] = []
        self.left = False
        self._session, self._credit, self._situation = session, credit, situation
        self._halted = False
        #: The state of the queue once the messages assigned so far are claimed.
        self._in_slots = set(situation.in_slots)
        self._in_flight = situation.in_flight
        self._waiting = set(situation.waiting)
        self._rivals = {rival: rival.credit for rival in situation.rivals}

    @property
    def is_done(self) -> bool:
        return self._halted or len(self.chosen) >= self._credit or not self._serves(self._session)

    @property
    def passed_groups(self) -> frozenset[str]:
        """The groups that have no further message for this claim."""
        return frozenset(self._waiting)

    def consider(self, candidates: Iterable[C], locked: Callable[[C], bool] = lambda _: False) -> None:
        """Choose from the next ready messages; reads no more of them than it needs.

        A message that another transaction has ``locked`` cannot be chosen.
        """
        rest = iter(candidates)
        while not self.is_done and (item := next(rest, None)) is not None:
            if locked(item):
                self._halted = self._situation.strict
                self._offers(item)
            elif not self._offers(item):
                continue
            elif (rival := first_taker(self._rivals, lambda rival: self._could_have(rival, item))) is not None:
                self._rivals[rival] -= 1
                self._take(rival.session)
                self.left = True
            elif self._may_have(self._session, item):
                self._take(self._session)
                self.chosen.append(item)

    def _serves(self, session: int) -> bool:
        """Whether the session may have any message."""
        if self._in_flight is not None and self._in_flight <= 0:
            return False
        return may_receive(session, self._in_slots, self._situation.slots)

    def _offers(self, item: Candidate) -> bool:
        """Whether the message need not wait for another of its group; the next one of the group then does."""
        if not self._situation.grouped or item.group is None:
            return True
        if item.group in self._waiting:
            return False
        self._waiting.add(item.group)
        return True

    def _may_have(self, session: int, item: Candidate) -> bool:
        """Whether the session has, or could take, a slot, and no other session owns the message's group."""
        owner = item.owner if self._situation.assigned else None
        return self._serves(session) and may_share(owner, session)

    def _could_have(self, rival: Rival, item: Candidate) -> bool:
        # A suspect needs a free slot.
        if self._rivals[rival] <= 0 or (item.suspect and rival.full):
            return False
        return self._may_have(rival.session, item) and any(wants(item) for wants in rival.wants)

    def _take(self, session: int) -> None:
        if self._situation.slots is not None:
            self._in_slots.add(session)
        if self._in_flight is not None:
            self._in_flight -= 1


def award(candidates: Iterable[C], session: int, credit: int, situation: Situation) -> Award[C]:
    """Return which of the candidates the session may claim, ``credit`` at most."""
    found: Award[C] = Award(session, credit, situation)
    found.consider(candidates)
    return found
