"""What a queue should do, said the slow way: one list of items, looked through anew every time.

Nothing of the engine is used but its names for states, and of a consumer only whether it is
blocked, which depends on what it has pulled in vain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django_mq.engine.states import State
from django_mq.inprocess.consumers.consumer import Interest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.message import Message
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry

#: The level of each priority in a queue of four, written out rather than computed.
LEVEL_OF_FOUR = (0, 0, 0, 0, 1, 2, 3, 3, 3, 3)

LINE = (State.READY, State.HELD, State.SCHEDULED)
CLAIMED = (State.CLAIMED, State.STEALABLE)
END = (10**9,)

Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The rules of a queue in the model's words."""

    order: str = "priority"
    due_first: bool = True
    hold: bool = False
    max_attempts: int | None = None
    dead_letters: bool = False
    expiry_queue: bool = False
    ring: int | None = None
    reject: int | None = None
    groups: str | None = None
    max_live: int | None = None
    #: How much one consumer may hold, by its name: messages and bytes.
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(eq=False)
class Item:
    """What is known of one message in the queue."""

    message: Message
    arrival: int
    level: int
    state: State
    entry: Entry | None = None
    due_at: float | None = None
    attempts: int = 0
    redelivered: bool = False
    holder: Seat | None = None
    declined_by: set[str] = field(default_factory=set)
    doomed: bool = False
    was_claimed: bool = False

    @property
    def group(self) -> object:
        return self.message.headers.get("group")

    @property
    def value(self) -> object:
        return self.message.headers.get("key")

    def is_expired(self, now: float) -> bool:
        return self.message.expires_at is not None and self.message.expires_at <= now


@dataclass(eq=False)
class Seat:
    """What is known of one consumer."""

    consumer: Consumer
    limits: tuple[int, int]
    here: bool = True
    paused: bool = False
    must_pull: bool = False
    outstanding: dict[Item, int] = field(default_factory=dict)
    reserved: list[Item] = field(default_factory=list)
    seen: set[Item] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.consumer.name

    @property
    def browser(self) -> bool:
        return self.consumer.browser

    @property
    def bytes(self) -> int:
        return sum(item.message.size for item in self.outstanding)

    @property
    def open(self) -> bool:
        return len(self.outstanding) < self.limits[0] and self.bytes < self.limits[1]

    def affords(self, item: Item) -> bool:
        return self.open and self.bytes + item.message.size <= self.limits[1]

    def wants(self, item: Item) -> bool:
        picky = self.consumer.selector is not None
        return self.name not in item.declined_by and (not picky or item.message.headers.get("color") == "red")


class Model:
    """One queue as a list."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.now = 100.0
        #: When house was kept last.
        self.swept_at = 0.0
        self.paused = False
        self.items: list[Item] = []
        self.arrivals = 0
        self.counters: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.seats: list[Seat] = []
        self.live: list[Seat] = []
        self.latest: dict[object, tuple[Item, int]] = {}
        self.owned: dict[object, tuple[Seat, set[Item]]] = {}
        self.passed: dict[Seat, Key] = {}
        #: Ids that were sent to the queue of dead letters.
        self.sent: list[str] = []

    # Order.

    def key(self, item: Item) -> Key:
        if self.kind.order == "sorted":
            text = item.message.headers.get("key")
            return (text is not None, text or "", item.arrival)
        return (-item.level, *self.place(item), item.arrival)

    def place(self, item: Item) -> tuple[int, float]:
        time = item.message.deliver_at
        first = time is not None and self.kind.due_first and not self.kind.hold
        return (0, time or 0.0) if first else (1, 0.0)

    def level(self, priority: int) -> int:
        return 0 if self.kind.order in ("fifo", "sorted") else LEVEL_OF_FOUR[priority]

    def ready(self) -> list[Item]:
        return sorted((item for item in self.items if item.state is State.READY), key=self.key)

    # Consumers.

    def desires(self, seat: Seat) -> bool:
        return seat.here and not seat.paused and seat.open and seat in self.live

    def joined(self, seat: Seat) -> None:
        seat.here, seat.must_pull = True, False
        self.seats.append(seat)
        if self.kind.max_live is None or len(self.live) < self.kind.max_live:
            self.live.append(seat)

    def left(self, seat: Seat) -> None:
        seat.here = seat.must_pull = False
        seat.seen = set()
        self.seats.remove(seat)
        self.passed.pop(seat, None)
        self.owned = {group: owned for group, owned in self.owned.items() if owned[0] is not seat}
        if seat in self.live:
            self.live.remove(seat)
            waiting = [each for each in self.seats if each not in self.live]
            if waiting and len(self.live) < (self.kind.max_live or 99):
                self.live.append(max(waiting, key=lambda each: each.consumer.priority))

    def may_take(self, seat: Seat, item: Item) -> bool:
        owned = self.owned.get(self.group(item))
        return owned is None or owned[0] is seat

    def group(self, item: Item) -> object:
        if self.kind.groups == "shared" and item.group is None:
            return "no-group"
        return item.group

    def first_for(self, seat: Seat) -> Item | None:
        for item in self.ready():
            if not item.is_expired(self.now) and seat.wants(item) and self.may_take(seat, item):
                return item
        return None

    def due_to(self, seat: Seat, *, in_turn: bool = False) -> Item | None:
        """What a consumer must be given if it pulls now, and nothing else.

        If all pull ``in_turn``, one that is stuck is known to be, and blocks no other.
        """
        item = self.first_for(seat)
        if item is None or self.paused or not self.desires(seat) or self.is_above(seat, item, in_turn=in_turn):
            return None
        return item if seat.affords(item) else None

    def is_above(self, seat: Seat, item: Item, *, in_turn: bool) -> bool:
        return any(
            better.consumer.priority > seat.consumer.priority
            and not better.browser
            and self.desires(better)
            and not self.is_stuck(better, known=in_turn)
            and better.wants(item)
            and better.affords(item)
            and self.may_take(better, item)
            for better in self.seats
        )

    def is_stuck(self, seat: Seat, *, known: bool) -> bool:
        """Whether it cannot afford its first entry, and has found that out; what comes due may free it."""
        is_blocked = seat.consumer.interest is Interest.BLOCKED
        if is_blocked and self.is_stuck_at_expired(seat):
            return True
        first = self.first_for(seat)
        return (known or is_blocked) and first is not None and not seat.affords(first)

    def is_stuck_at_expired(self, seat: Seat) -> bool:
        entry = seat.consumer.waiting_for
        return entry is not None and entry.expires_at is not None and entry.expires_at <= self.now

    # Browsers.

    def unseen(self, browser: Seat, *, again: bool) -> list[Item]:
        return [
            item
            for item in self.ready()
            if item not in browser.seen
            and browser.wants(item)
            and not item.is_expired(self.now)
            and (again or not item.redelivered)
        ]

    def is_owed(self, browser: Seat, *, asks: bool = False) -> bool:
        """Whether a browser must be shown something now, whichever of the first it is.

        That what it is stuck at has expired is noticed when house is kept, or when it ``asks``.
        """
        if not asks and self.is_stuck_at_expired(browser):
            return False
        must, may = self.unseen(browser, again=False), self.unseen(browser, again=True)
        if not must or self.paused or not self.desires(browser):
            return False
        return all(browser.affords(item) for item in may[: may.index(must[0]) + 1])

    # Moves.

    def arrive(self, message: Message) -> Item:
        self.arrivals += 1
        item = Item(message, self.arrivals, self.level(message.priority), State.READY)
        if message.deliver_at is not None and message.deliver_at > self.now:
            item.state = State.HELD if self.kind.hold else State.SCHEDULED
            item.due_at = message.deliver_at
        self.items.append(item)
        self.counters["enqueued"] += 1
        self.counters["enqueued_bytes"] += message.size
        self.most["depth"] = max(self.most["depth"], len(self.items))
        self.most["depth_bytes"] = max(self.most["depth_bytes"], sum(each.message.size for each in self.items))
        if item.state is State.READY:
            self.stand(item)
        return item

    def stand(self, item: Item) -> None:
        """It is ready from now on."""
        item.state, item.due_at, item.holder = State.READY, None, None
        if self.kind.order == "last_value" and item.value is not None and not self.is_latest(item):
            self.gone(item, "replaced")
            return
        self.most["ready"] = max(self.most["ready"], len(self.ready()))

    def is_latest(self, item: Item) -> bool:
        """Whether it is the latest value of its key, and takes the place of the one before."""
        latest, age = self.latest.get(item.value, (item, item.arrival))
        has_come_due = self.place(item)[0] == 0 and not item.was_claimed
        if latest is not item and age >= item.arrival and not has_come_due:
            return False
        if latest is not item and latest.state is State.READY:
            self.gone(latest, "replaced")
        self.latest[item.value] = item, max(age, item.arrival)
        return True

    def gone(self, item: Item, cause: str) -> None:
        item.state, item.holder = State.GONE, None
        self.items.remove(item)
        self.counters["dequeued"] += 1
        self.counters["dequeued_bytes"] += item.message.size
        self.counters[cause] += 1
        self.forget(item)

    def forget(self, item: Item) -> None:
        if self.latest.get(item.value, (None,))[0] is item:
            del self.latest[item.value]

    def evict(self, newcomer: Item | None = None) -> None:
        if self.kind.ring is None:
            return
        while len(self.items) - len(list(self.in_states(State.DEAD))) > self.kind.ring:
            lent = [item for item in self.items if item.state is State.STEALABLE]
            victims = [item for item in [*lent, *self.ready()] if item is not newcomer]
            if not victims:
                return
            self.take_away(min(victims, key=self.eviction_key), "replaced")

    def eviction_key(self, item: Item) -> Key:
        return (item.level, *self.place(item), item.arrival)

    def take_away(self, item: Item, cause: str) -> None:
        """Gone, even if a consumer holds it, which still has to settle it."""
        holder = item.holder
        self.gone(item, cause)
        if holder is None:
            return
        if item in holder.reserved:  # it never knew
            holder.reserved.remove(item)
            del holder.outstanding[item]
        self.gave_up(holder, item)

    def promote(self) -> None:
        due = [item for item in self.items if item.state is State.SCHEDULED and (item.due_at or 0) <= self.now]
        due.sort(key=lambda each: (each.due_at, not each.redelivered, each.arrival))
        for item in due:
            item.state, item.due_at = State.READY, None
            self.stand(item)
        if due:
            self.evict(due[-1])

    def unhold(self, seat: Seat | None = None) -> None:
        """Held items whose time has passed are ready: all, or those in front of a consumer."""
        position = None if seat is None else self.passed.get(seat)
        for item in list(self.in_states(State.HELD)):
            ahead = position is None or (position is not END and self.key(item) > position)
            if ahead and (item.due_at or 0) <= self.now:
                self.stand(item)

    def claimed(self, seat: Seat, item: Item, claim_number: int) -> None:
        item.state = State.STEALABLE if seat.consumer.stealable else State.CLAIMED
        item.holder, item.was_claimed = seat, True
        item.attempts += 1
        seat.outstanding[item] = claim_number
        if self.kind.groups is not None and self.group(item) is not None:
            owner, held = self.owned.setdefault(self.group(item), (seat, set()))
            if owner is seat:
                held.add(item)

    def gave_up(self, seat: Seat, item: Item) -> None:
        owned = self.owned.get(self.group(item))
        if owned is None or owned[0] is not seat:
            return
        owned[1].discard(item)
        if self.kind.groups == "shared" and not owned[1]:
            del self.owned[self.group(item)]

    def settle(self, seat: Seat, item: Item, claim_number: int) -> bool:
        """Whether a settlement has an effect; the credit is back in any case."""
        if seat.outstanding.get(item) != claim_number:
            return False
        del seat.outstanding[item]
        return item.holder is seat and item.state in CLAIMED

    def returned(self, seat: Seat, item: Item, due_at: float | None) -> None:
        item.holder, item.redelivered = None, True
        if item.doomed:
            self.gone(item, "killed")
        elif due_at is None and item.is_expired(self.swept_at):
            self.expired(item)  # it was overdue already when house was kept
        elif due_at is not None:
            item.state, item.due_at = State.SCHEDULED, due_at
        else:
            self.stand(item)
        self.gave_up(seat, item)
        if item.state is State.READY:
            self.evict()

    def accepted(self, seat: Seat, item: Item) -> None:
        self.gone(item, "accepted")
        self.gave_up(seat, item)

    def died(self, seat: Seat | None, item: Item) -> None:
        item.holder = None
        if self.kind.dead_letters:
            self.sent.append(item.message.id)
            self.gone(item, "killed")
        else:
            item.state, item.due_at = State.DEAD, None
            self.forget(item)
        if seat is not None:
            self.gave_up(seat, item)

    def expired(self, item: Item) -> None:
        if self.kind.expiry_queue:
            self.sent.append(item.message.id)
        self.take_away(item, "expired")

    def in_states(self, *states: State) -> Iterator[Item]:
        return (item for item in self.items if item.state in states)
