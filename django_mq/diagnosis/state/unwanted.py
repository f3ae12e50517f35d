"""Messages that no consumer wants: the live consumers of their queue all have selectors, and none matches."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from django_mq.engine.decisions.selection import may_want
from django_mq.engine.states import READY
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.diagnosis.state.fleet import WorkerStatus

#: So many of the first ready messages are read: what no consumer wants gathers at the head of a queue.
MOST_READ = 100


def unwanted(workers: Iterable[WorkerStatus], *, using: str) -> dict[str, int]:
    """Return how many of the first ready messages no consumer wants, by queue; queues without such are left out.

    Only queues whose live consumers all have selectors are read.
    """
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for worker in workers:
        for consumer in worker.consumers if not worker.stale else ():
            texts[consumer.queue].add(consumer.selector)
    found = {name: _count(name, some, using) for name, some in texts.items() if all(some)}
    return {name: number for name, number in found.items() if number}


def _count(name: str, texts: Iterable[str], using: str) -> int:
    messages = shared_store(using).browser.browse(name, states=[READY], limit=MOST_READ)
    return sum(not may_want(texts, each.as_message()) for each in messages)
