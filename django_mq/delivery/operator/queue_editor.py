"""Queues created and edited by an operator: every option is checked before anything is written."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

from django_mq.delivery import publisher
from django_mq.engine.options import LINKS, OPTIONS, QueueOptions
from django_mq.errors import ConfigurationError
from django_mq.models import Operation, Queue
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What an operator may set: the options of a declared queue, and whether it takes messages.
EDITABLE = (*OPTIONS, "closed")


def create_queue(name: str, options: Mapping[str, Any], *, using: str) -> None:
    """Create a queue. Raises ConfigurationError, also when the name is taken, and UnknownQueue."""
    store = shared_store(using)
    given = asdict(QueueOptions()) | {key: value for key, value in options.items() if key != "closed"}
    _check(Queue(name=name), options, using=using)
    with store.transaction():
        if not store.declare(name, given):
            raise ConfigurationError(f"There is a queue {name!r} already.")
        if options.get("closed"):
            Queue.objects.using(using).filter(name=name).update(closed=True)


def edit_queue(name: str, changes: Mapping[str, Any], *, using: str) -> None:
    """Change options of a queue. Raises UnknownQueue and ConfigurationError.

    Running workers notice within a few seconds. Messages that are there keep their level.
    """
    if not changes:
        raise ConfigurationError("Name at least one option to change.")
    with shared_store(using).transaction():
        queue = queue_named(name, using=using)
        columns = _check(queue, changes, using=using)
        queue.save(using=using, update_fields=columns)
    publisher.forget()


def queue_named(name: str, *, using: str) -> Queue:
    """Return a queue's row. Raises UnknownQueue."""
    found = Queue.objects.using(using).select_related(*LINKS).filter(name=name).first()
    if found is None:
        raise no_such_queue(name)
    return found


def _check(queue: Queue, changes: Mapping[str, Any], *, using: str) -> list[str]:
    """Apply the changes to the row and check the whole of it; return the changed columns."""
    unknown = sorted(set(changes) - set(EDITABLE))
    if unknown:
        raise ConfigurationError(f"Unknown options: {', '.join(unknown)}.")
    for option, value in changes.items():
        if option in LINKS:
            setattr(queue, option, None if value is None else queue_named(value, using=using))
        else:
            setattr(queue, option, value)
    # As given: a queue reads an option without a column that cannot be as the default.
    settings = replace(queue.options, **{name: value for name, value in changes.items() if name in OPTIONS})
    # What is out of range is not asked whether it makes sense as well.
    problems = [*settings.problems(), *_broken_columns(queue), *_lead_back(queue, using=using)]
    problems = problems or list(settings.contradictions())
    if problems:
        raise ConfigurationError("; ".join(problems) + ".")
    queue.counted_at = None  # limits may be new: what was known of the room is not
    return [*changes, "counted_at"]


def _broken_columns(queue: Queue) -> list[str]:
    """Return what the model says of columns that are no options. The store says whether the name is taken."""
    try:
        queue.full_clean(exclude=set(OPTIONS), validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        broken = error.message_dict
        return [f"{column}: {' '.join(sentences).rstrip('.')}" for column, sentences in broken.items()]
    return []


def _lead_back(queue: Queue, *, using: str) -> list[str]:
    """Refuse a chain of dead-letter queues that leads back: dead letters would travel for ever."""
    if queue.expiry_queue is not None and queue.expiry_queue.name == queue.name:
        return ["it cannot be its own expiry queue"]
    target = queue.dead_letter_queue
    if target is not None and leads_back(queue.name, target.name, using=using):
        return [f"with {target} as its dead-letter queue, dead letters would come back"]
    return []


def stop_operation(pk: int, *, using: str) -> bool:
    """Stop an operation in the background after the batch that runs; return whether it was running."""
    running = Operation.objects.using(using).filter(pk=pk, status=Operation.Status.RUNNING)
    return bool(running.update(status=Operation.Status.STOPPED, runner=None))


def leads_back(name: str, target: str | None, *, using: str) -> bool:
    """Return whether dead letters of a queue, if they went to ``target``, would come back to it.

    A circle that is there already and does not pass through the queue is not its business.
    """
    linked = Queue.objects.using(using).exclude(dead_letter_queue=None)
    following = dict(linked.values_list("name", "dead_letter_queue__name"))
    seen: set[str] = set()
    while target is not None and target not in seen:
        if target == name:
            return True
        seen.add(target)
        target = following.get(target)
    return False
