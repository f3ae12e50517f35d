"""The public API: what an application imports.

from django_mq.api import publish, publish_many, consumer, browse
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery import hints
from django_mq.delivery.codecs import BrowsedMessage, ReceivedMessage
from django_mq.delivery.consumer.handlers import consumer
from django_mq.delivery.operator.answers import Answer, Effect
from django_mq.delivery.operator.browser import browsed
from django_mq.delivery.operator.verbs import (
    acancel,
    amove,
    aredrive,
    arelease,
    areschedule,
    cancel,
    move,
    redrive,
    release,
    reschedule,
)
from django_mq.delivery.publisher import OutgoingMessage, apublish, apublish_many, publish, publish_many
from django_mq.delivery.queues import free_groups, pause, resume
from django_mq.delivery.validation import count_of, existing, queue_name
from django_mq.engine.decisions.bulk import Done
from django_mq.engine.decisions.unique import Unique, debounce
from django_mq.engine.states import State
from django_mq.errors import Cancelled, Decline, Reject, Release, Retry, Skip
from django_mq.periodic.decorator import periodic
from django_mq.replies.calls import acall, call
from django_mq.replies.reader import KeptResult, aget_result, aresult_of, get_result, result_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Answer",
    "BrowsedMessage",
    "Cancelled",
    "Decline",
    "Done",
    "Effect",
    "KeptResult",
    "OutgoingMessage",
    "ReceivedMessage",
    "Reject",
    "Release",
    "Retry",
    "Skip",
    "Unique",
    "acall",
    "acancel",
    "aget_result",
    "amove",
    "announce",
    "apublish",
    "apublish_many",
    "aredrive",
    "arelease",
    "areschedule",
    "aresult_of",
    "browse",
    "call",
    "cancel",
    "consumer",
    "debounce",
    "free_groups",
    "get_result",
    "move",
    "pause",
    "periodic",
    "publish",
    "publish_many",
    "purge",
    "redrive",
    "release",
    "reschedule",
    "result_of",
    "resume",
]


def announce(queue: str, *, messages: int = 1, using: str | None = None) -> None:
    """Wake as many idle workers of the queue as there are messages, when the open transaction commits.

    For programs that write messages with SQL of their own: ``publish`` announces them by itself. Raises
    InvalidMessage for a wrong name or number.
    """
    name, count = queue_name(queue), count_of(messages, "messages")
    hints.announce_count(name, count, using=using or conf.load().DATABASE)


def browse(
    queue: str,
    *,
    states: Sequence[State] = (State.READY,),
    selector: str = "",
    limit: int | None = None,
    follow: bool = False,
    from_tail: bool = False,
    using: str | None = None,
) -> Iterator[BrowsedMessage]:
    """Yield the queue's messages, at most ``limit``, in delivery order without taking them.

    ``selector`` says which messages to yield; the others are read and skipped.
    Pages are read one after the other. A message that comes or goes meanwhile may be missing; no message
    is yielded twice. A declared queue that was never used yields nothing. Raises UnknownQueue and
    MalformedSelector.

    With ``follow`` the iterator never ends: it yields the existing messages in any state, and then
    each new message once it is committed, in the order of arrival. It misses a message that comes and goes
    between two queries. A message that an operator moves or gives another priority counts as new. Close the
    iterator to stop. With ``from_tail`` it yields only what arrives after the first ``next()``, without
    messages that open transactions have published before. Raises ConfigurationError for ``from_tail`` alone.
    """
    found = browsed(
        queue,
        states=states,
        selector=selector,
        limit=limit,
        following=follow,
        from_tail=from_tail,
        using=using,
    )
    yield from map(BrowsedMessage, found)


def purge(queue: str, *, using: str | None = None) -> int:
    """Remove all messages of the queue that no worker holds, without later arrivals; return how many.

    Outside a transaction, what workers have prefetched and not begun is removed, too. For this the queue is
    paused for a moment. Raises UnknownQueue.
    """
    from django_mq.delivery.operator import recalls  # noqa: PLC0415 - models; an app may not be installed

    return recalls.purge(existing(queue), using=using or conf.load().DATABASE)
