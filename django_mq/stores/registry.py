"""The store of each database; no other file looks at the name of a vendor."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.errors import DriverMissing, UnsupportedDatabase
from django_mq.stores.connections import private_connection
from django_mq.stores.errors import unsupported_in_memory

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_mq.conf import Settings
    from django_mq.stores.base import Store
    from django_mq.stores.sql.store import SQLStore

#: In place of a database alias: the queues in the memory of this process.
MEMORY = ":memory:"

#: Vendor to the module and class of its store, imported when first asked for.
STORES = {
    "postgresql": ("django_mq.stores.postgresql.store", "PostgreSQLStore"),
    "mysql": ("django_mq.stores.mysql.store", "MySQLStore"),
    "sqlite": ("django_mq.stores.sqlite.store", "SQLiteStore"),
}


def store_for(connection: BaseDatabaseWrapper, *, private: bool = False) -> SQLStore:
    """Return the store that speaks over this connection. Raises UnsupportedDatabase."""
    return kind_of(connection)(connection, private=private)


def kind_of(connection: BaseDatabaseWrapper) -> type[SQLStore]:
    """Return the class of the store for a connection, which is not opened. Raises UnsupportedDatabase."""
    try:
        return _kind(connection.vendor)
    except KeyError:
        raise UnsupportedDatabase(
            f"There is no store for {connection.display_name}; use one of {', '.join(STORES)}."
        ) from None
    except ImportError as error:
        raise DriverMissing(
            f"The store for {connection.display_name} needs a driver that cannot be imported: {error}."
        ) from error


@cache
def _kind(vendor: str) -> type[SQLStore]:
    """Return the class of a vendor's store, from the cache, because every publish makes a store."""
    module, name = STORES[vendor]
    kind: type[SQLStore] = getattr(import_module(module), name)
    return kind


def wanted_hints(settings: Settings) -> str:
    """Return what is to carry hints: what ``HINTS`` names, or Redis where it is set, or the database if it can."""
    return settings.HINTS or ("redis" if settings.REDIS_URL else "postgresql")


def has_store(alias: str) -> bool:
    """Whether queues can be under this name: a database alias, or ``MEMORY``."""
    return alias == MEMORY or alias in connections


def _memory(*, private: bool = False) -> Store:
    # By name: the in-process broker stands above this package, and a probe and most commands never use it.
    module = import_module("django_mq.inprocess.memory.store")
    store: Store = module.MemoryStore(MEMORY, private=private)
    return store


def shared_store(alias: str) -> Store:
    """Return a store over this thread's Django connection, joining its transaction."""
    return _memory() if alias == MEMORY else store_for(connections[alias])


def database_store(alias: str, rule: str) -> Store:
    """Return what ``shared_store`` returns. Raises UnsupportedRule, which names the rule, for queues in memory."""
    store = shared_store(alias)
    if not store.features.durable:
        raise unsupported_in_memory(rule)
    return store


def private_store(alias: str) -> Store:
    """Return a store over a private connection, outside the caller's transaction."""
    if alias == MEMORY:
        return _memory(private=True)
    return store_for(private_connection(alias), private=True)
