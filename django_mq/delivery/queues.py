"""Queues: created when the settings or a caller ask, paused and resumed."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq import conf, signals
from django_mq.delivery import hints, validation
from django_mq.engine.options import QueueOptions
from django_mq.errors import ConfigurationError, InvalidMessage
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.base import Store


def declare(store: Store, name: str, rules: Mapping[str, Any] | None = None) -> bool:
    """Create the queue with the options its settings give, or with the defaults; True if it was created.

    ``rules`` are options that whoever asks for it has a say in. Raises ConfigurationError if they
    cannot be, and InvalidMessage for a name that no queue can have.

    Its dead-letter and expiry queues are created first, so that nothing on its way there finds them missing.
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
    """Whether a native publish may bring this queue into being."""
    settings = conf.load()
    return settings.AUTO_DECLARE or name in _declared_names(settings)


def _declared_names(settings: conf.Settings) -> set[str]:
    links = [(queue.dead_letter_queue, queue.expiry_queue) for queue in settings.QUEUES.values()]
    return set(settings.QUEUES) | {name for names in links for name in names if name}


# A queue stops, and goes on: the row says so, then the listeners are told.


def pause(queue: str, *, reason: str = "", seconds: float | None = None, using: str | None = None) -> None:
    """Deliver nothing from the queue, for so long or until ``resume``; publishing goes on.

    Raises UnknownQueue, and InvalidMessage for a time or a reason that is none.
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
    """Deliver again, at once. Raises UnknownQueue."""
    queue = validation.existing(queue)
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.set_paused(queue, paused=False)
    hints.hint([queue], using=alias)
    store.after_commit(partial(signals.tell, signals.queue_resumed, queue=queue, using=alias))
