"""What one claim asks of the database: statements of SQLite, round trips to PostgreSQL and MariaDB."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from django_mq.stores.base import Store
    from tests.structure.relay import Relay

    Count = Callable[[], AbstractContextManager[list[int]]]

#: The options of the queue of each claim; the consumers of "priorities" differ in priority. The claim is the first
#: of its session, which takes a slot and groups that are new.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"grouping": "assigned"},
    "slots": {"max_consumers": 2},
    "priorities": {},
    "in flight": {"max_in_flight": 100},
    "strict": {"strict": True},
    "slots and groups": {"grouping": "assigned", "max_consumers": 2, "strict": True},
}


def counts(store: Store, relay: Relay | None) -> dict[str, int]:
    """Return the count of each kind of claim; ``relay`` stands before the server, None for SQLite."""
    count = _statements(store) if relay is None else relay.counted
    return {name: _of_a_claim(store, name, count) for name in QUEUES}


def _of_a_claim(store: Any, name: str, count: Count) -> int:
    from django_mq.stores.records import ClaimRequest
    from tests.stores.builders import claim, declare, open_session, publish

    declare(store, name, **QUEUES[name])
    other, session = open_session(store), open_session(store)
    _renew(store, other, name, 0)
    _renew(store, session, name, 1 if name == "priorities" else 0)
    for number in range(4):
        publish(store, name, group_key=str(number))
    # What a store remembers after its first claim is not asked again.
    claim(store, other, name, credit=1)
    with count() as counted:
        claimed = store.claims.settle_and_claim(session, [], ClaimRequest(queues=(name,), credit=2)).claimed
    assert len(claimed) == 2
    return counted[0]


def _renew(store: Store, session: int, queue: str, priority: int) -> None:
    from django_mq.stores.records import ConsumerInfo, Heartbeat

    consumer = ConsumerInfo(queue_name=queue, priority=priority, credit_limit=10)
    store.sessions.renew(
        session, Heartbeat(deadline_seconds=60, queues=(queue,), credit=10, consumers=(consumer,))
    )


def _statements(store: Any) -> Count:
    @contextmanager
    def counted() -> Iterator[list[int]]:
        statements: list[str] = []
        counted: list[int] = []
        store.database.connection.connection.set_trace_callback(statements.append)
        yield counted
        store.database.connection.connection.set_trace_callback(None)
        counted.append(len(statements))

    return counted
