"""Queues come into being: those of the settings on first use, others when a door asks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.conf import QueueSettings

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def declare(store: Store, name: str) -> bool:
    """Create the queue with the options its settings give, or with the defaults; True if it was created.

    Its dead-letter queue is created first, so that no dead letter ever finds it missing.
    """
    options = conf.load().QUEUES.get(name, QueueSettings())
    if options.dead_letter_queue and options.dead_letter_queue != name:
        declare(store, options.dead_letter_queue)
    return store.declare(name, asdict(options))


def declare_all(store: Store) -> list[str]:
    """Create every queue of the settings that does not exist yet; return their names."""
    return [name for name in conf.load().QUEUES if declare(store, name)]


def may_declare(name: str) -> bool:
    """Whether a native publish may bring this queue into being."""
    settings = conf.load()
    return settings.AUTO_DECLARE or name in _declared_names(settings)


def _declared_names(settings: conf.Settings) -> set[str]:
    targets = {queue.dead_letter_queue for queue in settings.QUEUES.values() if queue.dead_letter_queue}
    return set(settings.QUEUES) | targets
