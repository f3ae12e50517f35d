"""Fair places: give messages their places in queues that keys share, in the transaction that makes them ready.

A ready message with the ordinary place has no fair place yet, and stands last: it was scheduled, or an older
version has published it. It gets its place from a claim that makes due messages ready, or from maintenance.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.decisions.fairness import FIRST, HEAD, present_place, stored_key, turns
from django_mq.engine.decisions.places import level_of, levels_of
from django_mq.engine.message import Message
from django_mq.stores.records import headers_in
from django_mq.stores.sql.database import Part, first_of
from django_mq.stores.sql.publications import has_time, is_ready_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.stores.records import Moved, NewMessage, QueueRecord
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.queues import Queues

#: The most messages that one transaction places.
PLACE_LIMIT = 1000
#: Kinds of rows of fair_level.
COUNTER, WAITING, LOCKED = range(3)
#: What a level has as a key: no key is stored so.
LEVEL = ""


class Counter(NamedTuple):
    """How far a key or its level has come, for one publisher at a time."""

    id: int
    finish: int
    #: The present place that the last publisher has seen, of a level.
    seen: int


class Extent(NamedTuple):
    """How far a key or its level has come, to be written."""

    finish: int
    seen: int


class Arriving(NamedTuple):
    """New messages of one key in one level, in order of arrival, by what stands for each."""

    weight: float
    messages: list[int]


@dataclass(slots=True)
class LevelCounters:
    """How far a level and some of its keys have come, as a publisher sees it."""

    #: The counters of each key, in the order of their ids.
    counters: defaultdict[str, list[Counter]] = field(default_factory=lambda: defaultdict(list))
    #: The counter of each key that the publisher has locked, as it is now.
    own: dict[str, Counter] = field(default_factory=dict)
    #: Whether a counter that the publisher sees is also the last one that was committed.
    sees_commits: bool = True
    #: The place of each of the first ready messages, and whether it has come back.
    head: list[tuple[int, bool]] = field(default_factory=list)

    def known(self, key: str) -> list[Counter]:
        """Return the counters of a key, the own one as it is now."""
        return [*self.counters[key], *([self.own[key]] if key in self.own else [])]

    def ahead(self, key: str) -> int:
        """Return how many other publishers of the key are writing."""
        if not self.sees_commits:
            return 0
        own = self.own.get(key)
        return sum(own is None or counter.id < own.id for counter in self.counters[key])


@dataclass(eq=False)
class FairPlaces(Part):
    queues: Queues
    messages: Messages

    def placed(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return the messages, with their places if they are ready at once and keys share their queue."""
        found = list(messages)
        for name in {message.queue_name for message in messages}:
            queue = self._fair(name)
            if queue is not None:
                levels = levels_of(queue.kind, queue.levels)
                new = [
                    (index, level_of(message.priority, levels), message.headers)
                    for index, message in enumerate(messages)
                    if message.queue_name == name and not has_time(message)
                ]
                for index, place in self._places(queue, new).items():
                    found[index] = replace(found[index], place=place)
        return found

    def append(self, message: NewMessage) -> int | None:
        """Write a message into a queue that has no other rules than fairness, if it can be done in a short way.

        Return its row id. None leaves nothing behind, and does not say why.
        """
        queue = self._fair(message.queue_name)
        if queue is None or queue.locks_publishers or queue.selectors or not is_ready_at_once(message):
            return None
        return self._append(queue, message)

    def _append(self, queue: QueueRecord, message: NewMessage) -> int | None:  # noqa: ARG002 - there is none
        return None

    def place(self, name: str, ids: Sequence[int]) -> None:
        """Give places to those of these messages that are ready and have none."""
        queue = self._fair(name)
        if queue is not None and ids:
            rows = self.rows("lock_unplaced", queue_id=queue.id, ids=list(ids))
            self.messages.set_places(self._places(queue, rows))

    def place_moved(self, moved: Iterable[Moved]) -> None:
        """Give places to messages that an operation has made ready."""
        ids = defaultdict(list)
        for each in moved:
            if each.new_id is not None:
                ids[each.queue].append(each.new_id)
        for name, some in ids.items():
            self.place(name, some)

    def place_again(self, standing: Mapping[int, tuple[str, str]]) -> None:
        """Give new places to ready messages; ``standing`` has the message id and the queue of each."""
        ids = defaultdict(list)
        for id_, (_, name) in standing.items():
            ids[name].append(id_)
        for name, some in ids.items():
            if self._fair(name) is not None:
                self.rows("unplace", ids=some)
                self.place(name, some)

    def promote(self, names: Iterable[str] | None = None) -> int:
        """Make due messages ready and place them, in these queues or in all; return how many became ready."""
        every: Iterable[str] = [row[0] for row in self.rows("fair_queues")] if names is None else names
        return sum(self._promote(name) for name in every)

    def _promote(self, name: str) -> int:
        queue = self._fair(name)
        if queue is None:
            return 0
        with self.database.transaction():
            promoted = self.queues.promote(PLACE_LIMIT, [name])
            found = self.rows("unplaced", queue_id=queue.id, limit=PLACE_LIMIT)
            self.place(name, sorted(first_of(found))[:PLACE_LIMIT])
        return promoted

    def prune(self, limit: int) -> int:
        """Delete counters of keys that are idle."""
        with self.database.transaction():
            ids = first_of(self.rows("idle_counters", limit=limit))
            return len(self.rows("drop_counters", ids=ids)) if ids else 0

    def _fair(self, name: str) -> QueueRecord | None:
        queue = self.queues.known(name)
        return queue if queue is not None and queue.fair_by else None

    def _places(self, queue: QueueRecord, new: Iterable[Sequence[Any]]) -> dict[int, int]:
        """Return the place of each message, given as what stands for it, its level and its headers."""
        places: dict[int, int] = {}
        for number, keys in arriving(queue, new).items():
            level = self._level(queue.id, number, [*keys, LEVEL])
            found, reached = reckoned(level, keys)
            places |= found
            self._write(queue.id, number, level, reached)
        return places

    def _level(self, queue_id: int, number: int, keys: list[str]) -> LevelCounters:
        """Read how far the level and its keys have come, and lock a counter of each if one is free."""
        rows = self.database.rows(
            "fair_level", queue_id=queue_id, level=number, keys=keys, first=FIRST, limit=HEAD
        )
        level = level_in(rows)
        self._lock(level)
        return level

    def _lock(self, level: LevelCounters) -> None:
        """Lock a counter of each key if one is free: the first one, or else the second one, and so on."""
        for turn in count():
            free = {
                counters[turn].id: key
                for key, counters in level.counters.items()
                if key not in level.own and turn < len(counters)
            }
            if not free:
                break
            for row in self.database.rows("lock_counters", ids=list(free)):
                level.own[free[row[0]]] = Counter(*row)

    def _write(self, queue_id: int, number: int, level: LevelCounters, reached: Mapping[str, Extent]) -> None:
        """Write how far the keys have come, each in the own counter or in a new one."""
        changed, added = [], []
        for key, (finish, seen) in reached.items():
            row = {"fair_key": key, "finish": finish, "seen": seen}
            own = level.own.get(key)
            if own is not None:
                changed.append(row | {"id": own.id})
            else:
                added.append(row | {"level": number})
        for name, counters in (("set_counters", changed), ("add_counters", added)):
            if counters:
                self.database.rows(name, queue_id=queue_id, counters=json.dumps(counters))


def level_in(rows: Iterable[tuple[Any, ...]]) -> LevelCounters:
    """Return what the rows of ``fair_level`` say."""
    level = LevelCounters()
    for kind, key, id_, place, seen, flag in sorted(rows, key=itemgetter(0, 2, 3)):
        if kind == COUNTER:
            level.counters[key].append(Counter(id_, place, seen))
            level.sees_commits = bool(flag)
        elif kind == LOCKED:
            level.own[key] = Counter(id_, place, seen)
        elif kind == WAITING:
            level.head.append((place, bool(flag)))
    return level


def reckoned(level: LevelCounters, keys: Mapping[str, Arriving]) -> tuple[dict[int, int], dict[str, Extent]]:
    """Return the place of each message, and how far its key and the level have come with it."""
    seen = max((counter.seen for counter in level.known(LEVEL)), default=FIRST)
    latest = max((counter.finish for counter in level.known(LEVEL)), default=FIRST)
    present = present_place(level.head, seen, latest)
    places: dict[int, int] = {}
    reached = {}
    for key, (weight, messages) in keys.items():
        finish = max((counter.finish for counter in level.known(key)), default=FIRST)
        there = turns(len(messages), weight, present=present, finish=finish, ahead=level.ahead(key))
        places |= zip(messages, there.places, strict=True)
        reached[key] = Extent(there.finish, FIRST)
        latest = max(latest, there.finish)
    reached[LEVEL] = Extent(latest, present)
    return places, reached


def arriving(queue: QueueRecord, new: Iterable[Sequence[Any]]) -> dict[int, dict[str, Arriving]]:
    """Return new messages by level and by key as it is stored."""
    found: defaultdict[int, dict[str, Arriving]] = defaultdict(dict)
    keys: dict[str, tuple[str, float]] = {}
    if queue.fairness is not None:
        for message, level, headers in new:
            text = str(headers)
            if text not in keys:
                key = queue.fairness.key_of(Message(id="", headers=headers_in(text)))
                keys[text] = stored_key(key), queue.fairness.weight_of(key)
            key, weight = keys[text]
            found[level].setdefault(key, Arriving(weight, [])).messages.append(message)
    return found
