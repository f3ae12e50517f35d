"""What a statement computes is what the engine would, on random values."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from django_mq.engine.decisions.claim import fitting
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.decisions.places import levels_of
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import DuplicateMessage
from django_mq.inprocess.entries.duplicates import DuplicateIds
from django_mq.inprocess.entries.entry import Placement
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.models import Message as Row
from django_mq.models import Queue
from django_mq.stores.records import Times
from django_mq.stores.sql.capacities import QueueCapacity
from tests.stores.builders import a_message, claim, declare, publish
from tests.stores.conftest import AS_PUBLISHER, needs_rows

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER

#: So many queues, each with messages written in every way there is.
QUEUES = 40
#: So many messages together are copied where a database can.
MANY = 50
#: Databases keep microseconds; the engine's times are floats.
ROUNDING = timedelta(microseconds=2)


def some_options(random: Random) -> dict[str, Any]:
    """Options that agree with each other, of those that decide places and times."""
    least, most = sorted(random.uniform(0, 5000) for _ in range(2))
    lives: dict[str, Any] = random.choice(
        [
            {},
            {"ttl_seconds": least},
            {"min_ttl_seconds": least},
            {"max_ttl_seconds": most},
            {"min_ttl_seconds": least, "max_ttl_seconds": most},
            {"no_expiry": True},
        ]
    )
    kind, due_order = random.choice(["priority", "fifo"]), random.choice(["due_first", "keep_place"])
    return {"kind": kind, "due_order": due_order, "levels": random.randint(1, 10), **lives}


def some_times(random: Random) -> dict[str, Any]:
    """Times of one message, as a publisher gives them."""
    seconds = random.uniform(-5000, 5000)
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    due: dict[str, Any] = random.choice([{}, {"deliver_at": at}, {"delay_seconds": abs(seconds)}])
    end: dict[str, Any] = random.choice(
        [{}, {"expires_at": at + timedelta(seconds=7)}, {"ttl_seconds": random.uniform(0, 9000)}]
    )
    return due | end


def publish_in_every_way(store: Store, queue: str, random: Random) -> dict[Any, dict[str, Any]]:
    """Publish; return, by message id, what each was given."""
    alone = [a_message(queue, priority=random.randint(0, 9), **some_times(random)) for _ in range(4)]
    plain = [a_message(queue, priority=random.randint(0, 9)) for _ in range(2)]
    together = [a_message(queue, priority=random.randint(0, 9), **some_times(random)) for _ in range(4)]
    copied = [a_message(queue, priority=random.randint(0, 9)) for _ in range(MANY)]
    for message in alone + plain:
        store.publications.append(message)
    store.publications.append_many(together)
    store.publications.append_many(copied)
    given = [(each.message_id, each.expires_at, each.ttl_seconds) for each in alone + plain + together + copied]
    alike, now = [uuid4() for _ in range(4)], datetime.now(UTC)
    ends = [None if random.random() < 0.3 else now + timedelta(seconds=random.randint(1, 9000)) for _ in alike]
    times = Times(
        [random.choice([None, int((now.timestamp() + random.randint(-99, 99)) * 1_000_000)]) for _ in alike],
        [None if end is None else round(end.timestamp() * 1_000_000) for end in ends],
    )
    like = a_message(queue, priority=random.randint(0, 9))
    store.publications.append_alike(like, [id_.bytes for id_ in alike], [b"{}"] * len(alike), times)
    given += [(id_, end, None) for id_, end in zip(alike, ends, strict=True)]
    return {id_: {"expires_at": end, "ttl_seconds": ttl} for id_, end, ttl in given}


def written(store: Store) -> list[dict[str, Any]]:
    """Return what stands in the tables."""
    if isinstance(store, MemoryStore):
        return [
            {
                "message_id": row.message.message_id,
                "priority": row.message.priority,
                "level": row.entry.level,
                "place": row.entry.place,
                "state": row.entry.state.value,
                "published_at": row.published_at,
                "deliver_at": row.deliver_at,
                "expires_at": row.expires_at,
            }
            for row in store.broker.rows.values()
        ]
    fields = ("message_id", "priority", "level", "place", "state", "published_at", "deliver_at", "expires_at")
    return list(Row.objects.using(store.alias).values(*fields))


def test_what_a_store_writes_is_what_the_engine_computes(store: Store) -> None:
    random, published = Random(13), {}
    for number in range(QUEUES):
        options = some_options(random)
        given = publish_in_every_way(store, declare(store, f"queue {number}", **options), random)
        published |= {id_: (times, options) for id_, times in given.items()}

    rows = written(store)

    assert len(rows) == len(published)
    for row in rows:
        check(row, *published[row["message_id"]])


def check(row: dict[str, Any], given: dict[str, Any], options: dict[str, Any]) -> None:
    """Compare one row with the engine's entry."""
    queue, arrived = QueueOptions(**options), row["published_at"]
    levels, due_first = levels_of(queue.kind, queue.levels), queue.due_order == "due_first"
    placement = Placement(levels, due_first, lifetime=Lifetime.of(queue))
    end = given["expires_at"]
    if end is None and given["ttl_seconds"] is not None:
        end = arrived + timedelta(seconds=given["ttl_seconds"])
    message = Message(
        id="",
        priority=row["priority"],
        deliver_at=None if row["deliver_at"] is None else row["deliver_at"].timestamp(),
        expires_at=None if end is None else end.timestamp(),
    )
    entry = placement.entry(message, 0, arrived.timestamp())
    assert (row["level"], row["place"], row["state"]) == (entry.level, entry.place, entry.state.value), options
    if entry.expires_at is None or row["expires_at"] is None:
        assert row["expires_at"] is entry.expires_at, options
    else:
        assert abs(row["expires_at"] - datetime.fromtimestamp(entry.expires_at, UTC)) <= ROUNDING, options


def test_a_claim_brings_as_many_as_the_engine_says_fit(store: Store, session: int) -> None:
    random = Random(7)
    for number in range(QUEUES):
        names = [declare(store, f"queue {number} {part}") for part in range(1 + number % 2)]
        line = [(random.random() < 0.2, random.randint(1, 9)) for _ in range(6)]
        ids = [
            publish(store, names[len(names) * position // len(line)], body=b"x" * size)
            for position, (_, size) in enumerate(line)
        ]
        suspect(store, [id_ for id_, (is_suspect, _) in zip(ids, line, strict=True) if is_suspect])
        slots, most = random.randint(-1, 2), random.randint(1, 40)

        found = claim(store, session, *names, listed=True, slots=slots, max_bytes=most)

        assert [message.id for message in found] == ids[: fitting(line, slots, most)], (line, slots, most)


def suspect(store: Store, ids: list[int]) -> None:
    """Let messages have been with a worker that died."""
    if isinstance(store, MemoryStore):
        for row in store.broker.found(ids):
            row.entry.suspect = True
    else:
        Row.objects.using(store.alias).filter(id__in=ids).update(suspect=True)


def test_a_queue_remembers_duplicate_ids_where_the_engine_says_so(store: Store) -> None:
    for count, seconds in product((0, 1), (None, 60.0)):
        queue = declare(store, f"{count} for {seconds}", dedup_count=count, dedup_seconds=seconds)
        store.admission.append([a_message(queue, dedup_id="once")])

        try:
            store.admission.append([a_message(queue, dedup_id="once")])
            is_remembered = False
        except DuplicateMessage:
            is_remembered = True

        assert is_remembered == DuplicateIds(count, seconds).remembers_any, queue


@pytest.mark.parametrize("overflow", ["ring", "reject"])
def test_a_ring_is_trimmed_where_the_engine_says_that_it_holds_too_much(store: Store, overflow: str) -> None:
    needs_rows(store)
    queue = Queue.objects.using(store.alias).filter(name=declare(store, "ring"))
    for most, most_bytes, held, held_bytes in product((None, 1), (None, 10), (1, 2), (10, 11)):
        capacity = QueueCapacity(
            queue_id=0,
            name="ring",
            limits=Limits(most, most_bytes),
            overflow=Overflow(overflow),
            last_value_key="",
            messages=held,
            size_bytes=held_bytes,
        )
        for counted_at in (None, datetime.now(UTC)):
            queue.update(
                overflow=overflow,
                max_messages=most,
                max_bytes=most_bytes,
                counted_at=counted_at,
                held_messages=held,
                held_bytes=held_bytes,
            )

            assert store.maintenance.due_duties()["trim"] == (
                capacity.is_ring and (counted_at is None or capacity.is_exceeded())
            ), capacity


def test_sql_locks_the_queues_whose_publishers_wait_for_each_other(store: Any) -> None:
    needs_rows(store)
    given: list[dict[str, Any]] = [
        {},
        {"max_messages": 1},
        {"max_bytes": 1},
        {"kind": "last_value", "last_value_key": "key"},
        {"selectors": "colour = 'red'"},
        {"kind": "fifo", "sort_key": "weight"},
        {"grouping": "assigned"},
    ]
    for number, options in enumerate(given):
        store.queues.declare(f"queue-{number}", asdict(QueueOptions(**options)))

    with store.database.transaction():
        locked = [bool(store.database.rows("lock_queue", queue=f"queue-{number}")) for number in range(len(given))]

    assert locked == [QueueOptions(**options).locks_publishers for options in given]
