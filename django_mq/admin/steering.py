"""Where the admin changes something, in the database of the queues: the store does it, then consumers are woken.

What is done to messages is in ``delivery.steering``. Every function raises MQError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.admin.table import alias
from django_mq.delivery import instructing, pausing, redriving
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django_mq.engine.conduct import Conduct
    from django_mq.stores.base import Store

#: Dead letters sent back at a time: a page must answer.
REDRIVEN = 10_000


def pause(name: str, *, reason: str, seconds: float | None) -> None:
    pausing.pause(name, reason=reason, seconds=seconds, using=alias())


def resume(name: str) -> None:
    pausing.resume(name, using=alias())


def purge(name: str) -> int:
    return _store().purge(name)


def redrive(name: str) -> tuple[int, int]:
    """Send dead letters back; return how many went, and how many could not."""
    done = redriving.redrive(name, limit=REDRIVEN, using=alias())
    return done.total, done.stayed


def instruct(session_id: int, *, conduct: Conduct | None = None, credit: int | None = None) -> bool:
    """Tell a worker session; return whether it is there."""
    return instructing.instruct(session_id, conduct=conduct, credit=credit, using=alias())


def delete_queue(name: str, *, force: bool) -> int:
    return _store().delete_queue(name, force=force)


def _store() -> Store:
    return shared_store(alias())
