"""How many messages one claim brings, from which queues, in which order, and what it leaves.

A message that was with a worker as it died is suspect. It is claimed alone, so that another death of a worker
has only one possible cause. A claim that brings more than its connection carries within the statement timeout
is cancelled, and would be cancelled again. So a claim is bounded by bytes as well as by credit, and the bound
shrinks when a claim has failed.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

#: The bound of a claim in bytes of bodies.
MOST_BYTES = 16 * 2**20
#: More bytes than a body can have.
ANY_SIZE: Final = 2**62
#: A failed claim divides the bound by this.
SHRINK = 4
#: The bound grows when a claim took less than the timeout divided by this.
QUICK = 4
#: How long claimed messages last, in seconds: it bounds how late a more urgent one may be.
AHEAD_SECONDS: Final = 0.05
#: The most messages that one statement claims.
MOST_AHEAD: Final = 500
#: Messages that have waited so long, in seconds, go back: what was quick has become slow.
STALE_SECONDS: Final = 0.2


def fitting(line: Iterable[tuple[object, int]], slots: int, most_bytes: int, first_bytes: int = ANY_SIZE) -> int:
    """Return how many of the first messages a claim brings; ``line`` gives for each (is suspect, size in bytes).

    It brings as many as have ``most_bytes`` together, and at least one, unless that one has more than
    ``first_bytes``. A suspect comes alone, and only if a slot is free. PostgreSQL's ``_chosen`` and SQLite's
    ``claim_across`` compute the same.
    """
    number = total = 0
    for suspect, size in line:
        if not number and size > first_bytes:
            break
        if suspect:
            return number or min(1, max(0, slots))
        total += size
        if number and total > most_bytes:
            break
        number += 1
    return number


#: The share of a consumer's byte credit that should be free before a claim that no free slot waits for.
REFILL_SHARE = 2 / 5


class ByteCredit(NamedTuple):
    """How many bytes of bodies a consumer may hold, and how many it holds: the engine's ``PrefetchCredit``."""

    most: int
    held: int = 0

    @property
    def is_open(self) -> bool:
        """Whether any message may come, however small."""
        return self.held < self.most

    @property
    def free(self) -> int:
        return max(0, self.most - self.held)

    @property
    def first(self) -> int:
        """The most bytes of the next message: any number while nothing is held, or a large one never came."""
        return self.free if self.held else ANY_SIZE

    @property
    def is_worth_a_claim(self) -> bool:
        """Whether so much is free that a claim brings several messages at once."""
        return not self.held or self.free >= self.most * REFILL_SHARE


def open_queues(limits: Mapping[str, int], credit: Mapping[str, ByteCredit]) -> dict[str, int]:
    """Return the queues to claim from, and how many messages of each: those with credit for messages and bytes."""
    return {
        queue: left
        for queue, left in limits.items()
        if left > 0 and (queue not in credit or credit[queue].is_open)
    }


def is_byte_credit(value: object) -> bool:
    """Whether a consumer may be given so many bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= ANY_SIZE


def allowed(line: Iterable[tuple[str, int]], credit: Mapping[str, ByteCredit]) -> list[bool]:
    """Return for each message whether the byte credit of its queue allows it; ``line`` has (queue, size in bytes).

    Behind a message that is not allowed, no other of its queue is. ``_allowed`` in SQL computes the same.
    """
    sizes: dict[str, int] = {}
    answers = []
    for queue, size in line:
        given = credit.get(queue)
        is_first = queue not in sizes
        sizes[queue] = sizes.get(queue, 0) + size
        answers.append(given is None or sizes[queue] <= (given.first if is_first else given.free))
    return answers


class ClaimBytes:
    """The bound of one worker's claims in bytes: ``amount``."""

    def __init__(self) -> None:
        self.amount = MOST_BYTES

    @property
    def is_reduced(self) -> bool:
        """Whether a claim has failed, and no claim of the full size has been quick since."""
        return self.amount < MOST_BYTES

    def failed(self) -> None:
        """Reduce the bound; a bound of 1 byte means one message at a time."""
        self.amount = max(1, self.amount // SHRINK)

    def brought(self, size_bytes: int, seconds: float, timeout_seconds: float) -> None:
        """Raise the bound if a claim that filled at least half of it was far from its timeout."""
        if 2 * size_bytes >= self.amount and seconds * QUICK < timeout_seconds:
            self.amount = min(MOST_BYTES, 2 * self.amount)


class Pace:
    """How quickly a session ends messages. Times are seconds of one clock.

    A statement for a few messages costs more than handlers that take a millisecond. So a session whose messages
    end quickly claims what it ends within ``AHEAD_SECONDS``, more than it begins at once. Since only the pace
    since the last claim counts, slow and idle sessions claim nothing ahead.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._settled = 0
        self._limit = 0

    def amount(self, settled: int, now: float) -> int:
        """Return how many messages may be claimed and not ended, by how many have ever ended.

        It is at most twice the last claim: one quick message proves little.
        """
        seconds = now - self._since
        pace = (settled - self._settled) / seconds if seconds > 0 else 0.0
        return max(0, min(MOST_AHEAD, self._limit, int(pace * AHEAD_SECONDS)))

    def claimed(self, settled: int, held: int, now: float) -> None:
        """Measure anew after a claim, after which so many are held."""
        self._since, self._settled, self._limit = now, settled, 2 * held


class Request(Protocol):
    """A claim: ``credit`` messages of the queues together, and of some queues no more than their limits."""

    @property
    def queues(self) -> Sequence[str]: ...
    @property
    def credit(self) -> int: ...
    @property
    def limits(self) -> Mapping[str, int]: ...


def limit_of(request: Request, queue: str) -> int:
    """Return how many messages the claim may bring from the queue."""
    return min(request.credit, request.limits.get(queue, request.credit))


def left_behind(request: Request, claimed: Sequence[str], seen: int) -> frozenset[str]:
    """Return the queues in which a claim may have left messages; ``claimed`` is the queue of each message.

    ``seen`` is how many messages it could have claimed; a suspect among them, or their bytes, cuts the
    claim. A suspect at the head that found no free slot is not reported: look again when a slot is free.
    """
    if not claimed:
        return frozenset()
    if seen >= request.credit or len(claimed) < seen:
        return frozenset(request.queues)
    counts = Counter(claimed) if request.limits else {}
    return frozenset(queue for queue, limit in request.limits.items() if counts[queue] >= limit)


#: The sort key of the entries of a queue, least first.
Order = tuple[int, int, int]


def order_of(level: int, place: int, arrival: int) -> Order:
    """Return the sort key of an entry: higher levels first, then lower places, then earlier arrivals.

    >>> order_of(level=5, place=0, arrival=2) < order_of(level=4, place=0, arrival=1)
    True
    """
    return -level, place, arrival


Item = TypeVar("Item")


def merged(queues: Sequence[Sequence[tuple[Item, int]]], *, listed: bool) -> list[Item]:
    """Return the messages of all queues, best first; each queue gives (message, priority) in delivery order.

    A message ranks by the least priority at or before it in its queue, so that each queue keeps its own
    order. Queues of equal heads take turns, unless they are ``listed`` in an order.
    """
    walk = [row for position, queue in enumerate(queues) for row in _ranked(position, queue)]
    # Position and turn are unique together, so messages themselves are never compared.
    walk.sort(key=lambda row: row[:3] if listed else (*row[1:3], row[0]))
    return [item for *_, item in walk]


Key = TypeVar("Key", str, int)


def next_batch(ranked: Iterable[int], size: int, queue_of: Mapping[int, Key], left: dict[Key, int]) -> list[int]:
    """Return the best ``size`` ids, of each queue as many as it has ``left``, and count these down."""
    batch: list[int] = []
    for id_ in ranked:
        if len(batch) >= size:
            break
        if left[queue_of[id_]] > 0:
            left[queue_of[id_]] -= 1
            batch.append(id_)
    return batch


def _ranked(position: int, queue: Sequence[tuple[Item, int]]) -> Iterator[tuple[int, int, int, Item]]:
    """Yield position, urgency (the smaller the sooner), turn and message."""
    urgencies = accumulate((priority for _, priority in queue), min)
    for turn, ((item, _), urgency) in enumerate(zip(queue, urgencies, strict=True)):
        yield position, -urgency, turn, item


Moment = TypeVar("Moment", float, "datetime")


def is_paused(paused: bool, paused_until: Moment | None, now: Moment) -> bool:
    """Return whether a queue is paused at ``now``.

    A pause with an end is over at that instant; its flag stays. SQL has the same rule in ``_paused``.
    """
    return paused and (paused_until is None or now < paused_until)


#: A running operation without progress for this many seconds has lost its process.
STALLED_SECONDS = 60.0
