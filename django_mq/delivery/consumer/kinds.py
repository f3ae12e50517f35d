"""Which workers a process has for its handlers, and whether each of them can have its messages.

Handlers of one message that run in threads have a worker together, and so have coroutine functions. Each handler
of many messages has one of its own. Each worker is a session.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery.consumer.handlers import Way
from django_mq.delivery.validation import check_selector
from django_mq.engine.decisions.selection import selections_of
from django_mq.engine.options import QueueOptions
from django_mq.errors import ConfigurationError, MalformedSelector, StoreError
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django_mq.delivery.consumer.handlers import Handler


def by_worker(handlers: Sequence[Handler]) -> list[list[Handler]]:
    """Return the handlers of each worker."""
    together = [[each for each in handlers if each.way is way] for way in (Way.THREADS, Way.EVENT_LOOP)]
    return [*filter(None, together), *([each] for each in handlers if each.way is Way.BULK)]


def check_kinds(handlers: Iterable[Handler], *, using: str) -> None:
    """Raise ConfigurationError if some handlers of a process would never get their messages."""
    for problem in problems_of_kinds(handlers, using=using):
        raise ConfigurationError(problem)


def problems_of_kinds(handlers: Iterable[Handler], *, using: str) -> Iterator[str]:
    """Yield why some handlers of a process would never get their messages.

    While the database cannot be asked, the options of the settings count.
    """
    of_queue: dict[str, list[Handler]] = {}
    for handler in handlers:
        of_queue.setdefault(handler.queue, []).append(handler)
    for queue, some in of_queue.items():
        workers = by_worker(some)
        if len(workers) > 1:
            names = "; ".join(", ".join(each.name for each in own) for own in workers)
            if problem := _of_slots(_options_of(queue, using), len(workers)) or _of_selectors(some, workers):
                yield (
                    f"The handlers of queue {queue!r} run in {len(workers)} workers of a process ({names}),"
                    f" {problem}; give each a queue of its own, or write all as plain functions, or all as"
                    " coroutine functions, without bulk."
                )


def _options_of(queue: str, using: str) -> QueueOptions:
    with suppress(StoreError):
        if (record := shared_store(using).queues.find(queue)) is not None:
            return record
    return conf.load().QUEUES.get(queue, QueueOptions())


def _of_slots(options: QueueOptions, sessions: int) -> str | None:
    if options.slots is None or options.slots >= sessions:
        return None
    return f"and {options.slots_option} lets only {options.slots} of them receive"


def _of_selectors(handlers: Iterable[Handler], workers: Iterable[Sequence[Handler]]) -> str | None:
    every = dict.fromkeys(each.selector for each in sorted(handlers, key=lambda each: not each.selector))
    try:
        for own in workers:
            for text in selections_of({each.selector for each in own}, every).values():
                check_selector(text)
    except (ConfigurationError, MalformedSelector):
        return "and their selectors together are longer than 1,000 characters, or nested too deep"
    return None
