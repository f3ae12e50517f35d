"""System checks of receivers. No broker and no database is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.conf import settings as django_settings
from django.core import checks

from django_mq import conf
from django_mq.bridges.receiving import receivers, receivers_on
from django_mq.delivery.queues import may_declare
from django_mq.engine.options import QueueOptions
from django_mq.errors import ConfigurationError
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.decisions.receivers import Receiver

CORRECT: Final = "Correct DJANGO_MQ['RECEIVERS']. Until then, nothing is received."


def register() -> None:
    """Register the checks; called once by the app."""
    checks.register(check_receivers, "django_mq")


def check_receivers(**_: Any) -> list[checks.CheckMessage]:
    """E018: a receiver is wrong; W014: its queue forgets ids of messages that the broker may send again."""
    try:
        found = receivers()
        receivers_on(MEMORY)
    except ConfigurationError as error:
        if "RECEIVERS" not in str(error) and "receiver" not in str(error):
            return []  # another check says it
        return [checks.Error(str(error), hint=CORRECT, id="django_mq.E018")]
    except TypeError:
        return []
    return [message for receiver in found.values() for message in _problems(receiver)]


def _problems(receiver: Receiver) -> Iterator[checks.CheckMessage]:
    what = f"The receiver {receiver.name!r}"
    if receiver.database and receiver.database not in django_settings.DATABASES:
        sentence = f"{what} writes into the database {receiver.database!r}, which is not in DATABASES."
        yield checks.Error(sentence, hint=CORRECT, id="django_mq.E018")
    queue = conf.load().QUEUES.get(receiver.queue or "", QueueOptions())
    known = receiver.queue in conf.load().QUEUES or (receiver.queue is not None and may_declare(receiver.queue))
    if not known:
        return  # it may be a queue that an operator has made
    if not queue.dedup_count and queue.dedup_seconds is None:
        sentence = (
            f"{what} writes into {receiver.queue!r}, which remembers no ids; set dedup_count or dedup_seconds."
        )
        yield checks.Error(sentence, hint=CORRECT, id="django_mq.E018")
    elif queue.dedup_count and queue.dedup_count < 2 * receiver.prefetch:
        yield checks.Warning(
            f"{what} prefetches {receiver.prefetch} messages, and its queue remembers {queue.dedup_count} ids.",
            hint="Set dedup_count to twice the prefetch or more: the broker sends again what was on the way.",
            id="django_mq.W014",
        )
