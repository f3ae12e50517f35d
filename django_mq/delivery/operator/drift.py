"""Compare the queues in the database with ``DJANGO_MQ["QUEUES"]``.

A queue keeps the options with which it was created, so a later change of the settings has no effect on it. Only
options that the settings name are compared: an operator may choose the others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq import conf
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.queues import declare
from django_mq.delivery.validation import plain
from django_mq.engine.options import LINKS
from django_mq.errors import StoreError
from django_mq.models import Queue
from django_mq.stores.connections import translating
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("django_mq.delivery")


@dataclass(frozen=True, slots=True)
class Difference:
    """An option of a queue that is not as the settings say."""

    queue: str
    option: str
    declared: Any
    stored: Any

    def __str__(self) -> str:
        return f"{self.option} is {self.stored!r}, and DJANGO_MQ['QUEUES'] says {self.declared!r}"


def differences(names: Iterable[str] | None = None, *, using: str) -> list[Difference]:
    """Return the differences of these queues, or of all that the settings declare. Raises StoreError."""
    given, declared = conf.raw().get("QUEUES", {}), conf.load().QUEUES
    chosen = given if names is None else set(names)
    wanted = [name for name in given if name in chosen]
    if not wanted or using not in connections:
        return []
    with translating(connections[using]):
        rows = {row.name: row for row in Queue.objects.using(using).filter(name__in=wanted).select_related(*LINKS)}
    found: list[Difference] = []
    for name in wanted:
        if name in rows:
            stored = rows[name]
            for option in given[name]:
                new, old = plain(declared[name].as_dict()[option]), stored.value_of(option)
                if new != old:
                    found.append(Difference(name, option, new, old))
    return found


def log_differences(names: Iterable[str] | None, *, using: str) -> None:
    """Log how queues differ from the settings when a worker starts. Never raises a StoreError."""
    try:
        found = differences(names, using=using)
    except StoreError:
        return  # the worker logs the outage
    for difference in found:
        mend = f"manage.py mq_queue sync {difference.queue} --force overwrites it"
        logger.warning("Queue %r: %s; %s", difference.queue, difference, mend)


def overwrite(found: Iterable[Difference], *, using: str) -> None:
    """Give each queue the options of the settings, creating its dead-letter and expiry queues.

    Raises ConfigurationError and UnknownQueue.
    """
    changes: dict[str, dict[str, Any]] = {}
    for difference in found:
        if difference.option in LINKS and difference.declared is not None:
            declare(shared_store(using), difference.declared)
        changes.setdefault(difference.queue, {})[difference.option] = difference.declared
    for queue, options in changes.items():
        edit_queue(queue, options, using=using)
