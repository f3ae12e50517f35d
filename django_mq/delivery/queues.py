"""Create, find, pause and resume queues."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq import conf, signals
from django_mq.delivery import hints, validation
from django_mq.engine.options import QueueOptions
from django_mq.errors import ConfigurationError, InvalidMessage
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord


def record_of(store: Store, name: str) -> QueueRecord:
    """Return the record of a queue. Raises UnknownQueue."""
    record = store.queue(name)
    if record is None:
        raise no_such_queue(name)
    return record


def declare(store: Store, name: str, rules: Mapping[str, Any] | None = None) -> bool:
    """Create the queue, with the options of the settings or the defaults; return whether it is new.

    ``rules`` are options that replace these. The queue's dead-letter and expiry queues are created first. Raises
    ConfigurationError for impossible options, and InvalidMessage for a name that no queue can have.
    """
    return _declare(store, name, {name}, rules)


def _declare(store: Store, name: str, coming: set[str], rules: Mapping[str, Any] | None = None) -> bool:
    name = validation.queue_name(name)
    options = conf.load().QUEUES.get(name, QueueOptions())
    for target in (options.dead_letter_queue, options.expiry_queue):
        if target and target not in coming:
            _declare(store, target, coming | {target})
    given = asdict(options) if not rules else _checked(name, asdict(options) | dict(rules))
    return store.declare(name, {option: validation.plain(value) for option, value in given.items()})


def _checked(name: str, options: dict[str, Any]) -> dict[str, Any]:
    settings = QueueOptions(**options)
    problems = list(settings.problems()) or list(settings.contradictions())
    if problems:
        raise ConfigurationError(f"Queue {name!r} cannot be declared so: {'; '.join(problems)}.")
    return options


def declare_all(store: Store) -> list[str]:
    """Create every queue of the settings that does not exist yet; return their names."""
    return [name for name in conf.load().QUEUES if declare(store, name)]


def may_declare(name: str) -> bool:
    """Return whether a native publish may create this queue."""
    settings = conf.load()
    return (
        settings.AUTO_DECLARE
        or name in settings.QUEUES
        or any(name in (queue.dead_letter_queue, queue.expiry_queue) for queue in settings.QUEUES.values())
    )


def pause(queue: str, *, reason: str = "", seconds: float | None = None, using: str | None = None) -> None:
    """Deliver nothing from the queue for so many seconds, or until ``resume``; publishing goes on.

    Raises UnknownQueue, and InvalidMessage for a wrong time or reason.
    """
    queue = validation.existing(queue)
    if not isinstance(reason, str):
        raise InvalidMessage(f"reason must be a string, not {type(reason).__name__}.")
    if seconds is not None:
        seconds = validation.seconds(seconds, "seconds")
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=True, reason=reason, seconds=seconds)
    tell = partial(signals.tell, signals.queue_paused, queue=queue, reason=reason, seconds=seconds, using=alias)
    store.after_commit(tell)


def resume(queue: str, *, using: str | None = None) -> None:
    """Deliver from the queue again. Raises UnknownQueue."""
    queue = validation.existing(queue)
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=False)
    hints.hint([queue], using=alias)
    store.after_commit(partial(signals.tell, signals.queue_resumed, queue=queue, using=alias))
