"""Limits by key: how many messages of each key may begin in a time, and how many may run at once.

A key comes from the message: its group, its type, a header, a field of its body, or an argument of its task. A
message without the key is not limited, and so is one of another type, where the limit names a type.

What is over a limit is parked for its key, and the key is noted as waiting. A claim asks the waiting keys first,
and makes as many of their messages ready as may begin. So no claim reads the others.

Of many keys, a claim knows a page: those whose time has come, in the order of their times, and those that run.
It reads the others when a message of its pages has them. A key that was asked gets a later time, so that the next
ones have their turn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from django_mq.engine.decisions.claim_limits import MOST_BODY_BYTES, Fill, Freed, OpenLimit, Refusal
from django_mq.engine.decisions.rates import (
    LEAST,
    MOST,
    UNUSED,
    Rate,
    Used,
    after_use,
    used_weight,
    wait_seconds,
    within_burst,
)
from django_mq.engine.message import Message, header_text
from django_mq.errors import OutOfRange, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from django_mq.engine.options import QueueOptions

#: The most characters of the name of a limit.
NAME_CHARACTERS: Final = 50
#: The most characters of a key. Of a longer one, the first characters stand with a digest of the whole.
KEY_CHARACTERS: Final = 200
DIGEST_CHARACTERS: Final = 32
#: What names a header, a field of the body, or an argument of a task, as the key.
HEADER: Final = "header:"
FIELD: Final = "body:"
ARGUMENT: Final = "argument:"
#: A parked message is asked again after this time in any case: its limit may be gone from the code.
PARKED_SECONDS: Final = 3600.0
#: The first message of a waiting key is asked again after this time: an operator may have changed its limit, and
#: the clock may have been set.
WAITING_SECONDS: Final = 60.0
#: After how many seconds to look for a slot that has become free: a worker that ends a message looks at once.
SLOT_SECONDS: Final = 0.5
#: How many messages of a limit that is not declared any more a claim makes ready.
MOST_LEFT: Final = 1000
#: A claim that has made so many messages ready leaves the other keys to the next one.
MOST_FREED: Final = 10_000
#: A claim knows all keys of a queue that has no more than these, else as many of those whose time has come.
MOST_KNOWN: Final = 100
#: A key of which everything has been free for this time is forgotten.
KEPT_SECONDS: Final = 60.0

#: What a key has used that was never used, as a database stores it.
FREE: Final = Used(0.0, 0.0)

#: The name of a limit, and one of its keys.
LimitedKey: TypeAlias = tuple[str, str]


class Allowed(NamedTuple):
    """What an operator allows a key, instead of what the code says; None for what the code says."""

    rate: Rate | None = None
    at_once: int | None = None


NOTHING_OF_ITS_OWN: Final = Allowed()


class LimitFacts(NamedTuple):
    """What is known of the keys of a queue as of ``now``, in seconds since 1970 by the database's clock.

    Keys of which everything is free are left out. Unless the facts are whole, so are others, whose time to be
    asked has not come.
    """

    now: float
    used: Mapping[LimitedKey, Used]
    #: Until when nothing of a key begins.
    held: Mapping[LimitedKey, float]
    allowed: Mapping[LimitedKey, Allowed]
    #: How many messages of a key run.
    running: Mapping[LimitedKey, int]
    #: When to ask the first message that is parked for a key.
    waiting: Mapping[LimitedKey, float]
    is_whole: bool = True
    #: When to ask the first of the waiting keys that were left out; None if none was.
    next_at: float | None = None

    def with_more(self, more: LimitFacts) -> LimitFacts:
        """Return these facts with those of more keys."""
        return self._replace(
            used={**self.used, **more.used},
            held={**self.held, **more.held},
            allowed={**self.allowed, **more.allowed},
            waiting={**self.waiting, **more.waiting},
        )


class KeyState(NamedTuple):
    """What a claim writes of a key."""

    used: Used
    waiting_until: float | None


def is_free(used: Used, waiting_until: float | None, now: float) -> bool:
    """Whether a key may be forgotten: everything of it has been free for a while, and nothing waits for it.

    What waited an hour after its time has come back by itself: no claim asks the limit any more. An older release
    writes 0 for what waits for a slot.
    """
    if waiting_until is not None and not 0 < waiting_until < now - PARKED_SECONDS:
        return False
    return used.free_at < now - KEPT_SECONDS


class Slot(NamedTuple):
    """A message that runs within a limit of how many run at once: its row id and the token of its claim."""

    limit: str
    key: str
    message: int
    claim: int


class Usage(NamedTuple):
    """What a claim writes of the limits of a queue."""

    states: Mapping[LimitedKey, KeyState]
    slots: Sequence[Slot]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedLimit:
    """A limit of the messages of each key.

    ``key`` is "" for all messages of the queue, or of the type, together, "group", "type", "header:" with the name
    of a header, "body:" with that of a field of a JSON object, or "argument:" with that of an argument of a task,
    of Celery or Django.
    ``place`` is the position of the argument, for tasks that are called with positional arguments.
    """

    name: str
    key: str = ""
    type: str = ""
    place: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier() and len(self.name) <= NAME_CHARACTERS):
            raise OutOfRange(
                f"The name of a limit is {shown(self.name)}; use an identifier of at most {NAME_CHARACTERS}"
                " characters."
            )
        named = isinstance(self.key, str) and any(
            self.key.startswith(kind) and self.key != kind for kind in (HEADER, FIELD, ARGUMENT)
        )
        if self.key not in {"", "group", "type"} and not named:
            raise OutOfRange(
                f"The key of the limit {self.name!r} is {shown(self.key)}; use '', 'group', 'type', or 'header:',"
                " 'body:' or 'argument:' with a name."
            )
        if not isinstance(self.type, str):
            raise OutOfRange(f"The type of the limit {self.name!r} is {shown(self.type)}; use a text.")
        if self.place is not None and not (type(self.place) is int and self.place >= 0):
            raise OutOfRange(f"The place of the limit {self.name!r} is {shown(self.place)}; use 0 or more.")

    @property
    def reads_message(self) -> bool:
        """Whether it asks more of a message than its group."""
        return bool(self.type or self._header) or self.key not in {"", "group"}

    @property
    def _header(self) -> str:
        """The header that it reads besides its key, blank for none."""
        return ""

    @property
    def only_key(self) -> str | None:
        """The key of all messages of the limit, which is the type if it is for one; None if they have several."""
        return told_apart(self.type) if not self.key or (self.key == "type" and self.type) else None

    def shares_keys_with(self, other: KeyedLimit) -> bool:
        """Whether a key of this limit may be one of another limit of its name."""
        return self.only_key is None or other.only_key is None or self.only_key == other.only_key

    @property
    def reads_body(self) -> bool:
        return self.key.startswith((FIELD, ARGUMENT))

    def key_of(self, message: Message) -> str | None:
        """Return the key of a message, None if the limit is not for it."""
        if self.type and message.type != self.type:
            return None
        found = self._key_in(message)
        return None if found is None else told_apart(found)

    def _key_in(self, message: Message) -> str | None:
        kind, _, name = self.key.partition(":")
        if kind == "header":
            return header_text(message, name)
        if kind == "body":
            return _text_in(json_of(message), name)
        if kind == "argument":
            return self._argument_in(json_of(message), name)
        return {"": self.type, "group": message.group, "type": message.type or None}[self.key]

    def _argument_in(self, body: Any, name: str) -> str | None:
        # Celery's own form of a task: its arguments, by position and by name, and what follows it.
        args, kwargs = body[:2] if isinstance(body, list) and len(body) > 1 else (None, None)
        if isinstance(body, dict):  # the form of Django's tasks
            args, kwargs = body.get("args"), body.get("kwargs")
        if not isinstance(args, list):
            return None
        if (found := _text_in(kwargs, name)) is not None:
            return found
        if self.place is None or not 0 <= self.place < len(args):
            return None
        return _text_in({name: args[self.place]}, name)

    def problem_in(self, queue: QueueOptions) -> str | None:
        """Return why a queue with these options cannot have the limit, as a sentence; None if it can."""
        if queue.strict:
            return "A strict queue ends at the first message that must wait, so it has no limits by key."
        if queue.has_groups and (self.type or self.key not in {"", "group"}):
            return (
                "In a queue with groups, a limit is for all types, and its key is the group: others could overtake"
                " in a group."
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(KeyedLimit):
    """How many messages of a key may begin in a time. What is over it waits, or is removed if it ``drops``.

    ``weight`` names a header with the number that a message counts as; it is 1 without the header.
    """

    rate: Rate
    weight: str = ""
    drops: bool = False

    def __post_init__(self) -> None:
        # As in Concurrency.
        KeyedLimit.__post_init__(self)
        if not isinstance(self.weight, str):
            raise OutOfRange(f"The weight of the limit {self.name!r} is {shown(self.weight)}; name a header.")

    @property
    def _header(self) -> str:
        return self.weight

    def weight_of(self, message: Message) -> float:
        """Return the number that a message counts as, within bounds: 1 where the header is no number above 0."""
        value = message.headers.get(self.weight) if self.weight else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return 1.0
        try:
            number = float(value)
        except OverflowError:
            return 1.0
        return min(max(number, LEAST), MOST) if isfinite(number) and number > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency(KeyedLimit):
    """How many messages of a key may run at once."""

    at_once: int

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is made anew, and is another class than the one of this method.
        KeyedLimit.__post_init__(self)
        if not isinstance(self.at_once, int) or isinstance(self.at_once, bool) or self.at_once < 1:
            raise OutOfRange(
                f"The limit {self.name!r} lets {shown(self.at_once)} run at once; use a number above 0."
            )


L = TypeVar("L", bound=KeyedLimit)


def told_apart(key: str) -> str:
    """Return the key as every database stores it: short, and without what some of them refuse or ignore."""
    plain = key.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    if plain == key and len(key) <= KEY_CHARACTERS and not key.endswith(" "):
        return key
    digest = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    return f"{plain[: KEY_CHARACTERS - DIGEST_CHARACTERS - 1].rstrip()}#{digest}"


def json_of(message: Message) -> Any:
    """Return the body of a message as JSON, None if it is no JSON or was too large to be read."""
    if not isinstance(message.body, bytes) or "json" not in message.content_type:
        return None
    if len(message.body) > MOST_BODY_BYTES:
        return None
    try:
        return json.loads(message.body)
    except (ValueError, RecursionError):
        return None


def _text_in(body: Any, name: str) -> str | None:
    """Return a field as text, as headers are; None without one."""
    return header_text(Message(id="", headers=body), name) if isinstance(body, dict) else None


def parking_key(place: LimitedKey) -> str:
    """Return the key for which messages over a limit are parked."""
    return ":".join(place)


def _placed(limits: Sequence[L], message: Message) -> Iterator[tuple[L, LimitedKey]]:
    """Yield the limits that are for a message, each with its key."""
    for limit in limits:
        if (key := limit.key_of(message)) is not None:
            yield limit, (limit.name, key)


class OpenKeyedLimits(OpenLimit):
    """The limits by key of a queue, for one claim."""

    def __init__(self, limits: Sequence[KeyedLimit], facts: LimitFacts) -> None:
        self._rates = [each for each in limits if isinstance(each, Throttle)]
        self._slots = [each for each in limits if isinstance(each, Concurrency)]
        self._by_place = {(each.name, each.only_key): each for each in limits}
        self._facts = facts
        self.reads_messages = any(each.reads_message for each in limits)
        self.reads_bodies = any(each.reads_body for each in limits)
        self._used, self._running, self._waiting = dict(facts.used), dict(facts.running), dict(facts.waiting)
        #: The keys that were read besides the first page, and those of which messages were made ready.
        self._learned: set[LimitedKey] = set()
        self._freed: set[LimitedKey] = set()
        #: Which rates and slots the last message is asked for, each with its key: it is asked several times.
        self._last: Message | None = None
        self._its_rates: list[tuple[Throttle, LimitedKey]] = []
        self._its_slots: list[tuple[Concurrency, LimitedKey]] = []

    # What is known.

    def lacking(self, messages: Iterable[Message]) -> Collection[LimitedKey]:
        if self._facts.is_whole:
            return ()
        wanted = {place for message in messages for place in self._places_of(message)}
        return {*self._waiting, *wanted} - self._learned

    def learn(self, keys: Collection[LimitedKey], facts: LimitFacts) -> None:
        self._learned.update(keys)
        self._facts = self._facts.with_more(facts)
        self._used |= facts.used
        self._waiting |= facts.waiting

    # What waits.

    @property
    def next_seconds(self) -> float | None:  # type: ignore[override]
        """In how many seconds the first message of a waiting key may begin."""
        times = [self._wait_of_waiting(place) for place in self._waiting]
        if self._facts.next_at is not None:
            times.append(max(0.0, self._facts.next_at - self._facts.now))
        return min(times, default=None)

    def _limit_of(self, place: LimitedKey) -> KeyedLimit | None:
        name, _ = place
        return self._by_place.get(place) or self._by_place.get((name, None))

    def _wait_of_waiting(self, place: LimitedKey) -> float:
        limit = self._limit_of(place)
        if isinstance(limit, Concurrency):
            return SLOT_SECONDS
        seconds = self._seconds_until(self._waiting[place])
        if not isinstance(limit, Throttle) or limit.weight:
            return seconds
        # The rate may have been made faster since the time was noted.
        return min(seconds, max(0.0, self._wait(limit, place)))

    def _seconds_until(self, time: float) -> float:
        """Return in how many seconds to ask a waiting key: at once if the clock has been set back."""
        seconds = time - self._facts.now
        return max(0.0, seconds) if seconds <= WAITING_SECONDS else 0.0

    def frees(self, most: int) -> Sequence[Freed]:
        """Return how many of the messages of each waiting key may begin now, of the longest due key first."""
        found: list[Freed] = []
        left = MOST_FREED
        for _, place in sorted((until, place) for place, until in self._waiting.items()):
            count = self._may_begin(place, most)
            if count > 0 and left > 0:
                found.append(Freed(parking_key(place), count))
                left -= count
            elif count > 0:
                # The next claim may not see that a message of the key has ended.
                self._waiting[place] = min(self._waiting[place], self._facts.now)
            elif most > 0 and self._seconds_until(self._waiting[place]) <= 0:
                self._wait_again(place, self._least_wait(place))
        return found

    def _least_wait(self, place: LimitedKey) -> float:
        """Return how long the lightest message of a waiting key must wait; a slot may become free at any time."""
        limit = self._limit_of(place)
        if not isinstance(limit, Throttle):
            return WAITING_SECONDS
        return self._wait(limit, place, LEAST if limit.weight else 1.0)

    def _may_begin(self, place: LimitedKey, most: int) -> int:
        limit = self._limit_of(place)
        if isinstance(limit, Concurrency):
            return min(most, self._at_once(limit, place) - self._running.get(place, 0))
        if not isinstance(limit, Throttle):
            return MOST_LEFT
        if self._wait_of_waiting(place) > 0 or self._least_wait(place) > 0:
            return 0
        rate, used, count = self._rate(limit, place), self._used_of(limit, place, self._used), 0
        while count < most and wait_seconds(rate, used, self._facts.now) <= 0:
            used, count = after_use(rate, used, self._facts.now), count + 1
        # The time of the first one has come: it may weigh less.
        return max(1, count) if most else 0

    def freed(self, freed: Freed, count: int) -> None:
        limit, _, key = freed.key.partition(":")
        if count < freed.most:
            del self._waiting[limit, key]
        else:
            self._freed.add((limit, key))

    # What may begin.

    def refuses(self, message: Message) -> Refusal | None:
        """Return what a message waits for that is over a limit: the longest wait of all, or a slot."""
        for limit, place in self._slots_of(message):
            if self._running.get(place, 0) >= self._at_once(limit, place):
                self._wait_again(place, WAITING_SECONDS)
                return Refusal(parking_key(place), PARKED_SECONDS)
        waits = [
            (self._wait(limit, place, limit.weight_of(message)), limit, place)
            for limit, place in self._rates_of(message)
        ]
        over = [(seconds, place) for seconds, limit, place in waits if seconds > 0 and not limit.drops]
        if any(seconds > 0 and limit.drops for seconds, limit, _ in waits):
            return Refusal("", drops=True)
        if not over:
            return None
        seconds, place = max(over)
        self._wait_again(place, seconds)
        return Refusal(parking_key(place), PARKED_SECONDS)

    def _wait_again(self, place: LimitedKey, seconds: float) -> None:
        """Note when to ask the first message of a key: of several times that are to come, the earliest."""
        until = self._facts.now + min(seconds, WAITING_SECONDS)
        known = self._waiting.get(place)
        if known is None or until < known or self._seconds_until(known) <= 0:
            self._waiting[place] = until

    def may_wait(self, message: Message) -> bool:
        """Whether half of each limit stays free for what begins at once: then what waits keeps nothing from it."""
        return all(
            2 * (self._running.get(place, 0) + 1) <= self._at_once(limit, place)
            for limit, place in self._slots_of(message)
        ) and all(self._leaves_half(limit, place, message) for limit, place in self._rates_of(message))

    def _leaves_half(self, limit: Throttle, place: LimitedKey, message: Message) -> bool:
        half, weight = self._rate(limit, place).burst / 2, limit.weight_of(message)
        return weight <= half and self._wait(limit, place, weight + half) <= 0

    def takes(self, message: Message) -> None:
        self._take(self._used, message)
        for limit, place in self._rates_of(message):
            if place in self._waiting:
                self._wait_again(place, self._wait(limit, place, limit.weight_of(message)))
        for _, place in self._slots_of(message):
            self._running[place] = self._running.get(place, 0) + 1

    def writes(self, taken: Sequence[tuple[tuple[int, int], Message]]) -> Usage | None:
        """Return what the leased messages have used; those that were taken and not leased have used nothing."""
        used, before = dict(self._facts.used), self._facts.waiting
        begun: set[LimitedKey] = set()
        slots = []
        for receipt, message in taken:
            begun.update(self._take(used, message))
            slots += [Slot(*place, *receipt) for _, place in self._slots_of(message)]
        self._look_again({(slot.limit, slot.key) for slot in slots}, begun)
        changed = {place for place in {*before, *self._waiting} if before.get(place) != self._waiting.get(place)}
        changed |= begun
        states = {place: KeyState(used.get(place, FREE), self._waiting.get(place)) for place in changed}
        return Usage(states, slots) if states or slots else None

    # For people.

    def fills(self) -> Sequence[Fill]:
        places = sorted({*self._used, *self._running, *self._waiting})
        return [fill for place in places if (fill := self._fill(place)) is not None]

    def _fill(self, place: LimitedKey) -> Fill | None:
        limit = self._limit_of(place)
        if isinstance(limit, Concurrency):
            return Fill(*place, self._running.get(place, 0), self._at_once(limit, place), runs=True)
        if not isinstance(limit, Throttle):
            return None
        rate = self._rate(limit, place)
        weight = used_weight(rate, self._used_of(limit, place, self._used), self._facts.now)
        return Fill(*place, weight, rate.burst)

    def _look_again(self, in_slots: Collection[LimitedKey], begun: Collection[LimitedKey]) -> None:
        """Give keys of which messages were made ready their next time: soon, unless they have begun."""
        for place in self._freed & {*self._waiting}:
            if place in in_slots:
                self._wait_again(place, WAITING_SECONDS)
            elif place not in begun and self._limit_of(place) is not None:
                self._wait_again(place, SLOT_SECONDS)

    def _places_of(self, message: Message) -> Iterator[LimitedKey]:
        for _, place in (*self._rates_of(message), *self._slots_of(message)):
            yield place

    def _rates_of(self, message: Message) -> Sequence[tuple[Throttle, LimitedKey]]:
        if message is not self._last:
            self._look_at(message)
        return self._its_rates

    def _slots_of(self, message: Message) -> Sequence[tuple[Concurrency, LimitedKey]]:
        if message is not self._last:
            self._look_at(message)
        return self._its_slots

    def _look_at(self, message: Message) -> None:
        self._last = message
        self._its_rates, self._its_slots = [*_placed(self._rates, message)], [*_placed(self._slots, message)]

    def _allowed(self, place: LimitedKey) -> Allowed:
        return self._facts.allowed.get(place, NOTHING_OF_ITS_OWN)

    def _rate(self, limit: Throttle, place: LimitedKey) -> Rate:
        return self._allowed(place).rate or limit.rate

    def _used_of(self, limit: Throttle, place: LimitedKey, used: Mapping[LimitedKey, Used]) -> Used:
        """Return what a key has used, also if its rate was slower then."""
        found = used.get(place, UNUSED)
        return found if limit.weight else within_burst(self._rate(limit, place), found)

    def _at_once(self, limit: Concurrency, place: LimitedKey) -> int:
        return self._allowed(place).at_once or limit.at_once

    def _held_seconds(self, place: LimitedKey) -> float:
        return self._facts.held.get(place, 0.0) - self._facts.now

    def _wait(self, limit: Throttle, place: LimitedKey, weight: float = 1.0) -> float:
        rate, used = self._rate(limit, place), self._used_of(limit, place, self._used)
        return max(self._held_seconds(place), wait_seconds(rate, used, self._facts.now, weight))

    def _take(self, used: dict[LimitedKey, Used], message: Message) -> list[LimitedKey]:
        places = []
        for limit, place in self._rates_of(message):
            before, weight = self._used_of(limit, place, used), limit.weight_of(message)
            used[place] = after_use(self._rate(limit, place), before, self._facts.now, weight)
            places.append(place)
        return places
