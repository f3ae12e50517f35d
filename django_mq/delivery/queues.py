"""Create, find, pause and resume queues."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, connections

from django_mq import conf, signals
from django_mq.delivery import hints, validation
from django_mq.engine.options import LINKS, QueueOptions
from django_mq.errors import ConfigurationError, InvalidMessage, StoreUnavailable, UnknownQueue
from django_mq.stores.errors import no_such_queue, undeclared
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django_mq.stores.base import Store
    from django_mq.stores.records import QueueRecord


def record_of(store: Store, name: str) -> QueueRecord:
    """Return the record of a queue. Raises UnknownQueue."""
    record = store.queues.find(name)
    if record is None:
        raise no_such_queue(name)
    return record


def declare(store: Store, name: str, rules: Mapping[str, Any] | None = None) -> bool:
    """Create the queue, with the options of the settings or the defaults; return whether it is new.

    ``rules`` are options that replace these. The queue's dead-letter and expiry queues are created first. Raises
    ConfigurationError for impossible options, and InvalidMessage for a name that no queue can have.
    """
    planned: dict[str, dict[str, Any]] = {}
    circular: dict[str, dict[str, str]] = {}
    name = _plan(name, [], planned, circular, rules)
    with store.database.transaction() if circular else nullcontext():
        new = {queue for queue, options in planned.items() if store.queues.declare(queue, options)}
        for queue in new.intersection(circular):
            store.queues.link(queue, **circular[queue])
    return name in new


def _plan(
    name: str,
    above: list[str],
    planned: dict[str, dict[str, Any]],
    circular: dict[str, dict[str, str]],
    rules: Mapping[str, Any] | None = None,
) -> str:
    """Note a queue's options after those of its dead-letter and expiry queues; return the name as it is written.

    A queue that names one of those above it is noted as circular: it is linked when that one is there.
    """
    name = validation.queue_name(name)
    options = conf.load().QUEUES.get(name, QueueOptions())
    given = options.as_dict() if not rules else _checked(name, options.as_dict() | dict(rules))
    for link in LINKS:
        if (target := given[link]) in (*above, name):
            circular.setdefault(name, {})[link] = target
        elif target and target not in planned:
            _plan(target, [*above, name], planned, circular)
    planned[name] = {option: validation.plain(value) for option, value in given.items()}
    return name


def _checked(name: str, options: dict[str, Any]) -> dict[str, Any]:
    settings = QueueOptions.of(options)
    problems = list(settings.problems(conf.extensions().queue_options)) or list(settings.contradictions())
    if problems:
        raise ConfigurationError(f"Queue {name!r} cannot be declared so: {'; '.join(problems)}.")
    return options


def declare_all(store: Store) -> list[str]:
    """Create every queue of the settings that does not exist yet; return their names."""
    return [name for name in conf.load().QUEUES if declare(store, name)]


#: Queues of Django's tasks, which TASKS names, and those for the deaths of messages.
_queues_of_tasks: set[str] = set()
#: At most so many names of existing queues are compared with a misspelt name.
MOST_NAMES = 1000


def allow(names: Iterable[str]) -> None:
    """Let these queues be created as if the settings declared them."""
    _queues_of_tasks.update(names)


def linked_queues() -> set[str]:
    """Return the dead-letter and expiry queues that the settings name."""
    options = conf.load().QUEUES.values()
    return {name for queue in options for name in (queue.dead_letter_queue, queue.expiry_queue) if name}


def may_declare(name: str) -> bool:
    """Return whether a publisher or a worker may create this queue."""
    settings = conf.load()
    return settings.AUTO_DECLARE or name in settings.QUEUES or name in _queues_of_tasks or name in linked_queues()


def undeclared_among(names: Iterable[str], *, using: str) -> list[str]:
    """Return the names that no queue has and that may not be declared. Raises StoreError."""
    unknown = [name for name in names if not may_declare(name)]
    return [name for name in unknown if shared_store(using).queues.find(name) is None]


def check_declared(name: str, *, using: str) -> None:
    """Return if the queue exists or may be declared. Raises UnknownQueue."""
    for unknown in undeclared_among([name], using=using):
        raise undeclared(unknown)


def check_handled(names: Iterable[str], *, using: str) -> None:
    """Raise UnknownQueue if a worker is to consume a queue that is not declared.

    While the database cannot be reached, nothing is raised: the worker waits for the database.
    """
    with suppress(StoreUnavailable):
        for name in undeclared_among(names, using=using):
            error = undeclared(name)
            raise UnknownQueue(f"A handler consumes an unknown queue. {explained(error, using)}", queue=name)


def meant(name: str, using: str) -> str:
    """Say of a queue that does not exist that it is declared, or which name was perhaps meant, or nothing."""
    from django_mq.models import Queue  # noqa: PLC0415 - the models need the loaded apps

    names = {*conf.load().QUEUES, *_queues_of_tasks, *linked_queues()}
    if name in names:
        return " It is declared: its first message, a worker, or manage.py mq_queue sync creates it."
    if using in connections:
        with suppress(DatabaseError):  # a failed transaction cannot read
            rows = Queue.objects.using(using).order_by("name").values_list("name", flat=True)
            names.update(rows[:MOST_NAMES])
    return similar(name, names)


def similar(name: str, names: Iterable[str]) -> str:
    """Return ``" Did you mean 'orders'?"`` for the most similar of the names, or nothing if none is similar."""
    close = get_close_matches(name, sorted(names), n=1, cutoff=0.7)
    # "orders" is no misspelt "orders.dead".
    return f" Did you mean {close[0]!r}?" if close and not name.startswith(close[0] + ".") else ""


def explained(error: UnknownQueue, using: str) -> str:
    """Return the text of the error, with what ``meant`` says."""
    said, more = str(error), meant(error.queue, using)
    return said if more in said else said + more


def free_groups(queue: str, group_key: str | None = None, *, using: str | None = None) -> int:
    """Let all groups of the queue, or one, find new owners; return how many had one. Raises UnknownQueue.

    An owner before finishes the messages that it has claimed. Until then no other worker gets any of the group.
    """
    queue = validation.existing(queue)
    alias = using or conf.load().DATABASE
    freed = shared_store(alias).queues.free_groups(queue, group_key)
    hints.hint([queue], using=alias)
    return freed


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
    store.queues.set_paused(queue, paused=True, reason=reason, seconds=seconds)
    hints.hint([queue], using=alias)  # workers give back what has not begun
    tell = partial(signals.tell, signals.queue_paused, queue=queue, reason=reason, seconds=seconds, using=alias)
    store.database.after_commit(tell)


def resume(queue: str, *, using: str | None = None) -> None:
    """Deliver from the queue again. Raises UnknownQueue."""
    queue = validation.existing(queue)
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    store.queues.set_paused(queue, paused=False)
    hints.hint([queue], using=alias)
    store.database.after_commit(partial(signals.tell, signals.queue_resumed, queue=queue, using=alias))
