"""What an INSERT computes is what the engine would: level, place, state and expiry, on random values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_mq.engine.expiry import Lifetime
from django_mq.engine.levels import levels_of
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.engine.placement import Placement
from django_mq.models import Message as Row
from django_mq.stores.memory.store import MemoryStore
from django_mq.stores.records import Times
from tests.stores.builders import a_message, declare

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: So many queues, each with messages written in every way there is.
QUEUES = 40
#: So many messages together are copied where a database can.
MANY = 50
#: Databases keep microseconds; the engine's times are floats.
ROUNDING = timedelta(microseconds=2)


def some_options(random: Random) -> dict[str, Any]:
    """Options that agree with each other, of those that decide places and times."""
    least, most = sorted(random.uniform(0, 5000) for _ in range(2))
    lives: dict[str, float] = random.choice(
        [
            {},
            {"ttl_seconds": least},
            {"min_ttl_seconds": least},
            {"max_ttl_seconds": most},
            {"min_ttl_seconds": least, "max_ttl_seconds": most},
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
        store.append(message)
    store.append_many(together)
    store.append_many(copied)
    given = [(each.message_id, each.expires_at, each.ttl_seconds) for each in alone + plain + together + copied]
    alike, now = [uuid4() for _ in range(4)], datetime.now(UTC)
    ends = [None if random.random() < 0.3 else now + timedelta(seconds=random.randint(1, 9000)) for _ in alike]
    times = Times(
        [random.choice([None, int((now.timestamp() + random.randint(-99, 99)) * 1_000_000)]) for _ in alike],
        [None if end is None else round(end.timestamp() * 1_000_000) for end in ends],
    )
    like = a_message(queue, priority=random.randint(0, 9))
    store.append_alike(like, [id_.bytes for id_ in alike], [b"{}"] * len(alike), times)
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
