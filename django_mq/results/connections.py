"""The connection over which a worker writes results.

Celery closes Django's connections before and after each task, and to open one takes longer than to write a result.
So the processes of a worker keep one more, over which they write while the task has no transaction open.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from django_mq.stores.connections import private_connection
from django_mq.stores.registry import store_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.sql.store import SQLStore

#: Alias to the store of this process, once ``keep`` was called.
_kept: Final[list[dict[str, SQLStore]]] = []


def keep(**_: Any) -> None:
    """Keep connections in this process: it runs tasks of a worker."""
    if not _kept:
        _kept.append({})


def is_kept() -> bool:
    """Whether this process runs tasks of a worker."""
    return bool(_kept)


def forget(**_: Any) -> None:
    """Close the connections of this process, and keep none any more."""
    for stores in _kept:
        for store in stores.values():
            store.database.close()
    _kept.clear()


@contextmanager
def writing(alias: str, *, is_run: bool) -> Iterator[SQLStore]:
    """Return a store to write a result over; if a transaction is open, a part of that."""
    shared = store_for(connections[alias])
    if not (is_run and _kept) or shared.database.in_transaction or shared.database.in_test:
        yield shared
        return
    stores = _kept[0]
    store = stores.get(alias) or stores.setdefault(alias, store_for(private_connection(alias), private=True))
    store.database.reconnect_if_ended()
    try:
        yield store
    except BaseException:
        # A time limit may have struck amid a statement.
        store.database.close()
        raise
