"""The receivers of one process: each in a thread, from the start of the process to its end."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections

from django_mq import conf
from django_mq.bridges.declared import bridges
from django_mq.bridges.direct import handler_for
from django_mq.bridges.reception import Reception
from django_mq.engine.decisions.receivers import Carrier, receivers_of
from django_mq.errors import ConfigurationError
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django_mq.engine.decisions.receivers import Receiver

logger = logging.getLogger("django_mq.bridges")


def receivers() -> dict[str, Receiver]:
    """Return the receivers of the settings by name. Raises ConfigurationError."""
    return receivers_of(conf.load().RECEIVERS, bridges())


def receivers_on(alias: str) -> list[Receiver]:
    """Return the receivers that write into a database. Raises ConfigurationError."""
    default = conf.load().DATABASE
    found = [each for each in receivers().values() if (each.database or default) == alias]
    if found and alias == MEMORY:
        raise ConfigurationError(
            f"The receiver {found[0].name!r} writes into queues in memory, which end with the process; use a"
            " database."
        )
    return found


def receivers_of_process(alias: str, carrier: Carrier) -> list[Receiver]:
    """Return the receivers that a worker process of this kind runs. Raises ConfigurationError."""
    if carrier is Carrier.NONE:
        return []
    return [each for each in receivers_on(alias) if each.workers in (Carrier.ALL.value, carrier.value)]


class Receivers:
    """Receivers that run in threads of this process."""

    def __init__(self, chosen: Iterable[Receiver], alias: str, *, until_empty: bool = False) -> None:
        """Prepare them. Raises ConfigurationError."""
        chosen = list(chosen)
        for each in chosen:
            if each.direct:
                handler_for(each)
        self._stopping = threading.Event()
        self._alias = alias
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(Reception(each, alias, stopping=self._stopping, until_empty=until_empty),),
                name=f"django_mq-receiver-{each.name}",
                daemon=True,
            )
            for each in chosen
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def _run(self, reception: Reception) -> None:
        try:
            reception.run()
        finally:
            connections.close_all()

    def stop(self) -> None:
        """Ask all to stop; a signal's handler or any thread may call this."""
        self._stopping.set()

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Wait until all have written what they have taken."""
        for thread in self._threads:
            thread.join()


@contextmanager
def receiving(chosen: Iterable[Receiver], alias: str, *, until_empty: bool = False) -> Iterator[Receivers]:
    """Run these receivers; at the end, wait until they have written what has come."""
    running = Receivers(chosen, alias, until_empty=until_empty)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        running.wait()
