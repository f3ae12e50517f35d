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

    ``selector`` says which messages to yield; the others are read and skipped.
    Pages are read one after the other. A message that comes or goes meanwhile may be missing; no message
    is yielded twice. Raises UnknownQueue and MalformedSelector.

    With ``follow`` the iterator never ends: it yields the existing messages in any state, and then
    each new message once it is committed, in the order of arrival. It misses a message that comes and goes
    between two queries. A message that an operator moves or gives another priority counts as new. Close the
    iterator to stop.
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
    """Remove all messages of the queue that no worker holds, without later arrivals; return how many.

    Raises UnknownQueue.
    """
    return shared_store(using or conf.load().DATABASE).purge(existing(queue))
