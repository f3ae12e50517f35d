"""What this process knows of the rows of queues: for publishers, claims, workers and Celery's transport.

A row is read again after ``KNOWN_SECONDS``, or once it was changed here. What a transaction reads may be old, or
never be committed, so only transactions know it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_mq.stores.errors import no_such_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord
    from django_mq.stores.subjects.database import Connection

#: Seconds until this process notices that another one has changed a queue.
KNOWN_SECONDS = 5.0
LONG_AGO = float("-inf")

#: By alias, name, and whether it was read in a transaction: when a row was read, and what it said.
_known: dict[tuple[str, str, bool], tuple[float, QueueRecord]] = {}


def known(store: Store, name: str) -> QueueRecord | None:
    """Return the queue's record as of at most ``KNOWN_SECONDS`` ago, None if there is no such queue."""
    return known_by(store.queues.find, name, store.database)


def known_by(find: Callable[[str], QueueRecord | None], name: str, connection: Connection) -> QueueRecord | None:
    """Return the same; the row is found over this connection."""
    if (record := fresh(connection.alias, name)) is not None:
        return record
    in_transaction = connection.in_transaction
    if in_transaction and (record := fresh(connection.alias, name, in_transaction=True)) is not None:
        return record
    record = find(name)
    if record is None:
        drop(connection.alias, name)
    else:
        _known[connection.alias, name, in_transaction] = time.monotonic(), record
    return record


def know(store: Store, names: Iterable[str], declare: Callable[[Store, str], object]) -> None:
    """Read the rows of the queues that are a few seconds old, and declare queues that are missing."""
    for name in names:
        if known(store, name) is None:
            declare(store, name)
            known(store, name)


def fresh(alias: str, name: str, *, in_transaction: bool = False) -> QueueRecord | None:
    """Return the queue's record if it was read at most ``KNOWN_SECONDS`` ago. The database is never asked."""
    found = _known.get((alias, name, in_transaction))
    return found[1] if found is not None and time.monotonic() - found[0] < KNOWN_SECONDS else None


def remembered(alias: str, name: str) -> QueueRecord | None:
    """Return the queue's record as it was last read, None if it never was. The database is never asked."""
    # Workers ask for each message.
    outside, inside = _known.get((alias, name, False)), _known.get((alias, name, True))
    newest = outside if inside is None or (outside is not None and outside[0] >= inside[0]) else inside
    return None if newest is None else newest[1]


def last_read(alias: str, name: str) -> QueueRecord:
    """Return what ``remembered`` returns. Raises UnknownQueue if the queue was never read."""
    record = remembered(alias, name)
    if record is None:
        raise no_such_queue(name)
    return record


def forget(alias: str, name: str) -> None:
    """Have the queue's row read again before it is used: it was changed."""
    for in_transaction in (False, True):
        if (known_here := _known.get((alias, name, in_transaction))) is not None:
            _known[alias, name, in_transaction] = LONG_AGO, known_here[1]


def drop(alias: str, name: str) -> None:
    """Forget the queue: it was deleted."""
    for in_transaction in (False, True):
        _known.pop((alias, name, in_transaction), None)
