"""Read messages in delivery order, without taking them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.follower import follow
from django_mq.delivery.queues import may_declare
from django_mq.delivery.validation import existing
from django_mq.engine.selector import Selector
from django_mq.errors import ConfigurationError
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.states import State
    from django_mq.stores.records import Browsed

#: Messages read by one statement while browsing.
PAGE = 200


def browsed(
    queue: str,
    *,
    states: Sequence[State],
    selector: str = "",
    limit: int | None = None,
    following: bool = False,
    from_tail: bool = False,
    using: str | None = None,
) -> Iterator[Browsed]:
    """Yield messages as they are stored. ``django_mq.api.browse`` has the promises."""
    queue, wanted = existing(queue), Selector(selector)
    if from_tail and not following:
        raise ConfigurationError("from_tail is for follow=True: nothing is behind the tail of a queue.")
    limit = limit if limit is None else max(0, limit)
    using = using or conf.load().DATABASE
    if not following and shared_store(using).queues.find(queue) is None:
        if may_declare(queue):
            return  # it is created by the first publish
        raise no_such_queue(queue)
    page = PAGE if limit is None or selector else min(PAGE, limit)
    found = follow(queue, from_tail=from_tail, using=using) if following else _pages(queue, states, page, using)
    if selector:
        found = (message for message in found if wanted.matches(message.as_message()))
    yield from islice(found, limit)


def _pages(queue: str, states: Sequence[State], size: int, using: str) -> Iterator[Browsed]:
    store, wanted = shared_store(using), [int(state) for state in states]
    last: Browsed | None = None
    while page := store.browser.browse(queue, states=wanted, limit=size, after=last):
        yield from page
        last = page[-1]
