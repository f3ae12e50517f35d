"""Which ready messages of a queue a session may claim, given the other sessions.

A store reads a page of the ready messages in delivery order and the facts about the other sessions;
the arbiter decides. It first assigns messages to the sessions of higher consumer priority, as far as they
could really claim them: with a slot, within the limit in flight, of their own or free groups, within
their credit, and a suspect only if they could begin it at once. No other message is left
to them. The in-process queue calls the same functions for its consumers.

A session that runs the messages of a group one after the other may have several of a group. It gets the first
message of each group before it gets a second one of any, so that groups do not wait for each other.

In a queue with ``balanced`` groups, a session that comes later takes over groups that have ready messages, until
it owns as many of them as the others. The owner before finishes what it has claimed and gets no more; the group
waits until then.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django_mq.engine.decisions.claim_limits import OpenLimits
from django_mq.engine.decisions.selection import Assignment
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


def may_take_over(own: int, others: int) -> bool:
    """Whether a session that owns so many groups may take one over from a session that owns so many."""
    return others > own + 1


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
    more messages may be claimed. With ``grouped``, only one session has messages of a group at a time, and the
    ``waiting`` groups have a message that another session has claimed, or that waits for its next attempt.
    A session that runs messages ``in_order`` may have several of a group; it has claimed messages of the
    ``running`` groups. With ``assigned``, a group stays with its first session; with ``balanced``, others may take
    it over. A ``strict`` queue ends at a message that is locked.
    """

    slots: int | None = None
    in_slots: frozenset[int] = frozenset()
    in_flight: int | None = None
    grouped: bool = False
    assigned: bool = False
    balanced: bool = False
    strict: bool = False
    in_order: bool = False
    waiting: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
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
    in_order: bool = False,
    keeping: Iterable[tuple[str, int | None]] = (),
    subscriptions: Iterable[Subscription] = (),
) -> Situation:
    """Return the situation of a claim from the queue's options and the facts; ``claimed`` are in flight.

    ``keeping`` has the group of each message that is claimed, with its session, or that waits for its next
    attempt, with None.
    """
    kept = list(keeping)
    waiting = frozenset(group for group, holder in kept if holder != session or not in_order)
    return Situation(
        slots=queue.slots,
        in_slots=in_slots,
        in_flight=None if queue.max_in_flight is None else queue.max_in_flight - claimed,
        grouped=queue.has_groups,
        assigned=queue.groups_stay,
        balanced=queue.grouping == "balanced",
        strict=queue.strict,
        in_order=in_order,
        waiting=waiting,
        running=frozenset(group for group, _ in kept) - waiting,
        rivals=rivals_of(session, subscriptions),
    )


class Award(Generic[C]):
    """The messages that a session may claim of one queue, decided page by page of its ready messages.

    ``left`` says whether messages were left to better sessions, ``is_done`` that no further message could
    be chosen. Of the candidates, an ``assignment`` offers those that the session's handlers want. The ``limits``
    are asked last, for messages that the session may have by all other rules; they keep what they refuse.
    """

    def __init__(
        self,
        session: int,
        credit: int,
        situation: Situation,
        assignment: Assignment[C] | None = None,
        limits: OpenLimits[C] | None = None,
    ) -> None:
        self.left = False
        self.limits = limits
        self._assignment = assignment
        self._session, self._credit, self._situation = session, credit, situation
        self._halted = False
        # The messages that can begin at once, and those behind them in their groups, each with its position.
        self._first: list[tuple[int, C]] = []
        self._behind: list[tuple[int, C]] = []
        self._position = 0
        #: The state of the queue once the messages assigned so far are claimed.
        self._in_slots = set(situation.in_slots)
        self._in_flight = situation.in_flight
        self._waiting = set(situation.waiting)
        self._running = set(situation.running)
        self._rivals = {rival: rival.credit for rival in situation.rivals}
        #: The groups that the session takes over from other sessions.
        self.taken_over: set[str] = set()
        # By session, its groups with ready messages among those considered.
        self._owned: defaultdict[int, set[str]] = defaultdict(set, {session: set(situation.running)})

    @property
    def chosen(self) -> list[C]:
        """The messages that the session may claim, in order."""
        most = self._credit if self._in_flight is None else len(self._first) + max(0, self._in_flight)
        places = self._first + self._behind[: max(0, min(self._credit, most) - len(self._first))]
        return [item for _, item in sorted(places, key=lambda place: place[0])]

    @property
    def beginning(self) -> int:
        """How many of the chosen messages can begin at once: no other one of their groups is before them."""
        return len(self._first)

    @property
    def is_done(self) -> bool:
        if self.limits is not None and self.limits.is_full:
            return True
        return self._halted or len(self._first) >= self._credit or not self._serves(self._session)

    @property
    def passed_groups(self) -> frozenset[str]:
        """The groups whose further messages cannot begin."""
        return frozenset(self._waiting | self._running)

    def consider(self, candidates: Iterable[C], locked: Callable[[C], bool] = lambda _: False) -> None:
        """Choose from the next ready messages; reads no more of them than it needs.

        A message that another transaction has ``locked``, or whose handler has no credit, cannot be chosen.
        """
        offered = candidates if self._assignment is None else filter(self._assignment.wants, candidates)
        rest = iter(self._counted(offered) if self._situation.balanced else offered)
        while not self.is_done and (item := next(rest, None)) is not None:
            self._position += 1
            self._take_over(item)
            if locked(item) or (self._assignment is not None and self._assignment.is_full(item)):
                self._halted = self._situation.strict
                self._close(item)
            elif item.group in self._running and self._situation.grouped:
                self._follow(item)
            elif not self._offers(item):
                continue
            elif (rival := first_taker(self._rivals, lambda rival: self._could_have(rival, item))) is not None:
                self._rivals[rival] -= 1
                self._take(rival.session)
                self.left = True
            elif self._may_have(self._session, item):
                if not self._is_allowed(item):
                    self._pass(item)
                    continue
                self._take(self._session)
                self._choose(item, self._first)
                self._open(item)

    def _is_allowed(self, item: C) -> bool:
        return self.limits is None or self.limits.allow(item)

    def _pass(self, item: Candidate) -> None:
        """Pass a message that the limits do not allow. If it is parked, it leaves its group to the next one."""
        if self.limits is not None and self.limits.stays_ready:
            self._close(item)
        elif self._situation.grouped and item.group is not None:
            self._waiting.discard(item.group)

    def _choose(self, item: C, chosen: list[tuple[int, C]]) -> None:
        chosen.append((self._position, item))
        if self._assignment is not None:
            self._assignment.take(item)

    def _serves(self, session: int) -> bool:
        """Whether the session may have any message."""
        if self._in_flight is not None and self._in_flight <= 0:
            return False
        return may_receive(session, self._in_slots, self._situation.slots)

    def _counted(self, candidates: Iterable[C]) -> list[C]:
        """Count the groups of each owner among the candidates, and return these."""
        given = list(candidates)
        for item in given:
            if item.owner is not None and item.group is not None:
                self._owned[item.owner].add(item.group)
        return given

    def _take_over(self, item: Candidate) -> None:
        """Take the group over if its owner has more groups than the session, and no higher priority."""
        owner, group = self._owner(item), item.group
        if not self._situation.balanced or owner is None or group is None:
            return
        if owner == self._session or any(rival.session == owner for rival in self._rivals):
            return
        if may_take_over(len(self._owned[self._session]), len(self._owned[owner])):
            self.taken_over.add(group)
            self._owned[owner].discard(group)
            self._owned[self._session].add(group)
            # If the owner before has claimed messages of it, look again soon.
            self.left = self.left or group in self._waiting

    def _owner(self, item: Candidate) -> int | None:
        """Return the owner of the message's group, if groups have owners."""
        if not self._situation.assigned:
            return None
        return self._session if item.group in self.taken_over else item.owner

    def _offers(self, item: Candidate) -> bool:
        """Whether the message need not wait for another of its group; the next one of the group then does."""
        if not self._situation.grouped or item.group is None:
            return True
        if item.group in self._waiting:
            return False
        self._waiting.add(item.group)
        return True

    def _open(self, item: Candidate) -> None:
        """Let messages follow the one that was chosen, unless it is a suspect, which is alone."""
        if self._situation.in_order and self._situation.grouped and item.group is not None and not item.suspect:
            self._waiting.discard(item.group)
            self._running.add(item.group)

    def _close(self, item: Candidate) -> None:
        """Let no further message of the group be chosen: it would overtake this one."""
        if self._situation.grouped and item.group is not None:
            self._running.discard(item.group)
            self._waiting.add(item.group)

    def _follow(self, item: C) -> None:
        """Choose a message behind others of its group, if credit is left in the end. A suspect has to wait."""
        if item.suspect or not self._may_have(self._session, item):
            self._close(item)
        elif len(self._behind) < self._credit:
            if self._is_allowed(item):
                self._choose(item, self._behind)
            elif self.limits is not None and self.limits.stays_ready:
                self._close(item)

    def _may_have(self, session: int, item: Candidate) -> bool:
        """Whether the session has, or could take, a slot, and no other session owns the message's group."""
        return self._serves(session) and may_share(self._owner(item), session)

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


def award(
    candidates: Iterable[C],
    session: int,
    credit: int,
    situation: Situation,
    *,
    assignment: Assignment[C] | None = None,
    limits: OpenLimits[C] | None = None,
) -> Award[C]:
    """Return which of the candidates the session may claim, ``credit`` at most."""
    found: Award[C] = Award(session, credit, situation, assignment, limits)
    found.consider(candidates)
    return found
