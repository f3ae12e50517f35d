"""Which connection writes what must not wait for the caller's transaction: queues, bindings, the volatile lane.

no transaction is open      Django's own, which commits by itself
one is open                 a private one, closed after use: most processes never publish again
... and a second writer     the caller's: waiting for his transaction would be
    would wait for it       waiting for oneself
in a worker, without one    its private one: children would inherit Django's

A thread with an open transaction never waits for a connection that other threads share: one of
them may be waiting, on that connection, for what the transaction has locked.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django_mq.stores.registry import private_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.session import Session
    from django_mq.stores.base import Store

#: This process, once a transport of it is on a worker's event loop.
_workers: set[int] = set()


#: Alias to the store that the transports of a worker share which have no session: events, gossip, replies.
_beside: dict[str, Store] = {}


def store_beside(alias: str) -> Store:
    """Return a private store for a transport without a session: in a worker the one of all, on a server."""
    if os.getpid() not in _workers:
        return private_store(alias)
    store = _beside.get(alias)
    if store is None:
        store = private_store(alias)
        if store.features.notices_changes:
            return store  # a connection does not notice its own changes
        store = _beside.setdefault(alias, store)
    return store


class Committing:
    """The choice for one transport; calling it opens a context with the store to use."""

    def __init__(self, alias: str, session: Callable[[], Session | None]) -> None:
        self._alias = alias
        # The session of the transport, None while it consumes no durable queue.
        self._session = session
        self._beside: Store | None = None

    @property
    def store(self) -> Store:
        """The private store: the session's, or another for a transport that has none."""
        session = self._session()
        if session is not None:
            return session.store
        if self._beside is None:
            self._beside = store_beside(self._alias)
        return self._beside

    def close(self) -> None:
        """Keep no connection that is not the session's."""
        if self._beside is not None:
            self._beside.close()

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        """Use a store that commits by itself wherever that is possible."""
        shared = shared_store(self._alias)
        waits_for_itself = shared.in_transaction and not shared.features.concurrent_writers
        if waits_for_itself or not (shared.in_transaction or self._in_worker()):
            yield shared
        else:
            with self.private() as store:
                yield store

    @contextmanager
    def private(self) -> Iterator[Store]:
        """Use a store that commits by itself, whatever transaction is open."""
        in_worker, in_transaction = self._in_worker(), shared_store(self._alias).in_transaction
        store = private_store(self._alias) if in_worker and in_transaction else self.store
        try:
            yield store
        finally:
            if in_transaction or not in_worker:
                store.close()

    def _in_worker(self) -> bool:
        return self._session() is not None or os.getpid() in _workers

    def enter_worker(self) -> None:
        """Take this process for a worker from now on, and close what its children should not inherit."""
        _workers.add(os.getpid())
        shared_store(self._alias).disconnect()
