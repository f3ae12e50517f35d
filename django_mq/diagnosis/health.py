"""Is it well? A probe's question: few statements, and an answer in time whatever hangs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import connections

from django_mq.diagnosis.naming import meant
from django_mq.diagnosis.overview import overview
from django_mq.errors import MQError, UnknownQueue
from django_mq.stores.translation import translating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.diagnosis.overview import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What counts as well, beyond a database that answers and has the tables."""

    #: Only these queues; all without names.
    queues: Sequence[str] = ()
    #: Most seconds that a ready message may have waited: of a queue that is not paused, and for a worker,
    #: not in a dead-letter queue from which none takes.
    oldest_seconds: float | None = None
    #: Most dead letters in a queue, dead in place or sent there by others.
    dead: int | None = None
    #: Whether every queue must have a live worker session.
    workers: bool = False


@dataclass(slots=True)
class Health:
    """The answer: well if there are no troubles."""

    troubles: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        return not self.troubles


def probe(demands: Demands, *, using: str, timeout_seconds: float) -> Health:
    """Ask, and answer in about ``timeout_seconds`` at the latest; never raises for what it finds.

    The database is asked in a thread with a connection of its own: a driver that waits
    for a dead server cannot be interrupted, only left behind.
    """
    health = Health()
    began = time.monotonic()
    asking = threading.Thread(target=_ask, args=(demands, using, health.troubles), daemon=True)
    asking.start()
    asking.join(timeout_seconds)
    # A thread that answers after all must not change what has been said.
    health.troubles = list(health.troubles)
    if asking.is_alive():
        health.troubles.append(f"The database has not answered within {timeout_seconds:g} s.")
    health.seconds = time.monotonic() - began
    return health


def _ask(demands: Demands, alias: str, troubles: list[str]) -> None:
    try:
        with translating(connections[alias]):
            for queue in overview(demands.queues, using=alias):
                troubles.extend(_troubles(queue, demands))
    except UnknownQueue as error:
        troubles.append(f"{error}{meant(error.queue, alias)}")
    except MQError as error:
        troubles.append(str(error))
    finally:
        connections[alias].close()


def _troubles(queue: QueueState, demands: Demands) -> list[str]:
    troubles = []
    if demands.oldest_seconds is not None and not queue.paused:
        # Of a dead-letter queue that is asked about by its name the age is meant, too.
        age = (queue.oldest_ready_seconds or 0.0) if queue.name in demands.queues else queue.waited_seconds
        if age > demands.oldest_seconds:
            troubles.append(f"Queue {queue.name!r}: its oldest ready message has waited {age:.0f} s.")
    if demands.dead is not None and queue.dead_letters > demands.dead:
        troubles.append(f"Queue {queue.name!r}: {queue.dead_letters} dead letters.")
    if demands.workers and not queue.consumers and not queue.takes_dead_letters:
        troubles.append(f"Queue {queue.name!r}: no live worker takes from it.")
    return troubles
