"""The public API: what an application imports.

from django_mq.api import publish, publish_many, consumer, browse
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery import follower
from django_mq.delivery.consumer.handlers import ReceivedMessage, consumer
from django_mq.delivery.publisher import OutgoingMessage, apublish, apublish_many, publish, publish_many
from django_mq.delivery.queues import pause, resume
from django_mq.delivery.validation import existing
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.errors import Reject, Release, Retry
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.stores.records import Browsed

__all__ = [
    "OutgoingMessage",
    "ReceivedMessage",
    "Reject",
    "Release",
    "Retry",
    "apublish",
    "apublish_many",
    "browse",
    "consumer",
    "pause",
    "publish",
    "publish_many",
    "purge",
    "resume",
]

#: Messages read by one statement while browsing.
PAGE = 200


def browse(
    queue: str,
    *,
    states: Sequence[State] = (State.READY,),
    selector: str = "",
    limit: int | None = None,
    follow: bool = False,
    using: str | None = None,
) -> Iterator[Browsed]:
    """Yield the queue's messages, at most ``limit``, in delivery order without taking them.

    A ``selector`` says which messages are wanted; the others are read and passed over.
    Pages are read one after the other, so messages that come or go meanwhile may or may
    not be seen; none is seen twice. Raises UnknownQueue and MalformedSelector.

    With ``follow`` it never ends: it yields what is there, whatever its state, and then
    whatever arrives, each once and in the order of arrival, as soon as it is committed. What
    came and went between two looks is not seen; what an operator moved, or gave another
    priority, has arrived anew. Close the iterator when you have seen enough.
    """
    queue, wanted = existing(queue), Selector(selector)
    limit = limit if limit is None else max(0, limit)
    using = using or conf.load().DATABASE
    if not follow and shared_store(using).queue(queue) is None:
        raise no_such_queue(queue)
    page = PAGE if limit is None or selector else min(PAGE, limit)
    found = follower.follow(queue, using=using) if follow else _pages(queue, states, page, using)
    if selector:
        found = (message for message in found if wanted.matches(message.as_message()))
    yield from islice(found, limit)


def _pages(queue: str, states: Sequence[State], size: int, using: str) -> Iterator[Browsed]:
    store, wanted = shared_store(using), [int(state) for state in states]
    last: Browsed | None = None
    while page := store.browse(queue, states=wanted, limit=size, after=last):
        yield from page
        last = page[-1]


def purge(queue: str, *, using: str | None = None) -> int:
    """Remove every message of the queue that nobody holds, none that comes meanwhile; return how many.

    Raises UnknownQueue.
    """
    return shared_store(using or conf.load().DATABASE).purge(existing(queue))
