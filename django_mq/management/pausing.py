"""Pause and resume, the same by ``mq_pause``, ``mq_resume`` and ``mq_queue``: all of the named queues or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import api
from django_mq.diagnosis.messages.queue_names import check_names

if TYPE_CHECKING:
    from collections.abc import Iterable


def pause_all(names: Iterable[str], *, reason: str, seconds: float | None, using: str) -> list[str]:
    """Pause the queues; return what to say of each. Raises UnknownQueue, and then none is paused."""
    wanted = list(dict.fromkeys(names))
    check_names(wanted, using=using)
    for name in wanted:
        api.pause(name, reason=reason, seconds=seconds, using=using)
    return [f"Queue {name!r} is paused." for name in wanted]


def resume_all(names: Iterable[str], *, using: str) -> list[str]:
    """Resume the queues; return what to say of each. Raises UnknownQueue, and then none is resumed."""
    wanted = list(dict.fromkeys(names))
    check_names(wanted, using=using)
    for name in wanted:
        api.resume(name, using=using)
    return [f"Queue {name!r} delivers." for name in wanted]
