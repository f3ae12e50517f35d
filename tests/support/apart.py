"""Close the connections of threads that publish for event loops, so that test databases can be dropped."""

from __future__ import annotations

from threading import Barrier
from typing import TYPE_CHECKING

from django.db import connections

if TYPE_CHECKING:
    from django_mq.stores.connections import ApartThreads


def close_connections(threads: ApartThreads) -> None:
    """Close the connections of each thread."""
    count = len(threads.executor._threads)
    together = Barrier(count) if count else None

    def close() -> None:
        together.wait()  # so that each thread takes one
        connections.close_all()

    for closed in [threads.executor.submit(close) for _ in range(count)]:
        closed.result()
