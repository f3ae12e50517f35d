"""Create queues and change their options, checking every option before anything is written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

from django_mq import conf
from django_mq.delivery.queues import declare
from django_mq.engine.decisions import dead_letters
from django_mq.engine.options import LINKS, MEMORY_OPTIONS, OPTIONS, QueueOptions, others_in
from django_mq.errors import ConfigurationError
from django_mq.models import Operation, Queue
from django_mq.stores import queue_records
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping


def editable() -> tuple[str, ...]:
    """Return what an operator may set: the options of a queue, and whether it refuses new messages."""
    return (*conf.queue_options(), "closed")


def create_queue(name: str, options: Mapping[str, Any], *, using: str) -> None:
    """Create a queue; options that are not given are those of the settings, or the defaults.

    Raises ConfigurationError, also if the queue exists, and UnknownQueue.
    """
    store = shared_store(using)
    declared = conf.load().QUEUES.get(name, QueueOptions()).as_dict()
    # The settings are checked, and the queues that they name may not exist yet.
    alone = {option: value for option, value in declared.items() if option not in (*LINKS, *MEMORY_OPTIONS)}
    _check(Queue(name=name), {**alone, **options}, using=using)
    with store.database.transaction():
        if not declare(store, name, {key: value for key, value in options.items() if key != "closed"}):
            raise ConfigurationError(f"There is a queue {name!r} already.")
        if options.get("closed"):
            Queue.objects.using(using).filter(name=name).update(closed=True)


def edit_queue(name: str, changes: Mapping[str, Any], *, using: str) -> None:
    """Change options of a queue. Raises UnknownQueue and ConfigurationError.

    Running workers notice within a few seconds. Messages in the queue keep their level.
    """
    if not changes:
        raise ConfigurationError("Name at least one option to change.")
    with shared_store(using).database.transaction():
        queue = queue_named(name, using=using)
        columns = _check(queue, changes, using=using)
        queue.save(using=using, update_fields=columns)
    forget(name, using=using)


def forget(name: str, *, using: str) -> None:
    """Have this process read the row of a queue again that was just edited, now and once that is committed."""
    queue_records.forget(using, name)
    shared_store(using).database.after_commit(partial(queue_records.forget, using, name))


def queue_named(name: str, *, using: str) -> Queue:
    """Return a queue's row. Raises UnknownQueue."""
    found = Queue.objects.using(using).select_related(*LINKS).filter(name=name).first()
    if found is None:
        raise no_such_queue(name)
    return found


def _check(queue: Queue, changes: Mapping[str, Any], *, using: str) -> list[str]:
    """Apply the changes to the row and check it; return the changed columns."""
    unknown = sorted(set(changes) - set(editable()))
    if unknown:
        raise ConfigurationError(f"Unknown options: {', '.join(unknown)}.")
    for option, value in changes.items():
        if option in LINKS:
            setattr(queue, option, None if value is None else queue_named(value, using=using))
        else:
            setattr(queue, option, value)
    # The values as given: the row would read an impossible option without a column as its default.
    added = conf.extensions().queue_options
    kept = replace(queue.options, added={}).as_dict() | others_in(queue.other_options, added)
    settings = QueueOptions.of(kept | {name: value for name, value in changes.items() if name != "closed"})
    problems = [*settings.problems(added), *_broken_columns(queue), *_lead_back(queue, using=using)]
    problems = problems or list(settings.contradictions())
    if problems:
        raise ConfigurationError("; ".join(problems) + ".")
    queue.counted_at = None  # with new limits, the messages are counted again
    return [*changes, "counted_at"]


def _broken_columns(queue: Queue) -> list[str]:
    """Return the model's errors for columns that are no options."""
    try:
        queue.full_clean(exclude=set(OPTIONS), validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        broken = error.message_dict
        return [f"{column}: {' '.join(sentences).rstrip('.')}" for column, sentences in broken.items()]
    return []


def _lead_back(queue: Queue, *, using: str) -> list[str]:
    """Return what is wrong if the queue would get its own messages back."""
    dead_letter_queue, expiry_queue = (
        None if link is None else link.name for link in (queue.dead_letter_queue, queue.expiry_queue)
    )
    words = {
        "dead_letter_queue": f"with {dead_letter_queue} as its dead-letter queue, dead letters would come back",
        "expiry_queue": "it cannot be its own expiry queue",
    }
    found = links_back(queue.name, dead_letter_queue=dead_letter_queue, expiry_queue=expiry_queue, using=using)
    return [words[option] for option in found]


def stop_operation(pk: int, *, using: str) -> bool:
    """Stop a background operation after its current batch; return whether it was running."""
    running = Operation.objects.using(using).filter(pk=pk, status=Operation.Status.RUNNING)
    return bool(running.update(status=Operation.Status.STOPPED, runner=None))


def links_back(
    name: str, *, dead_letter_queue: str | None = None, expiry_queue: str | None = None, using: str
) -> list[str]:
    """Return those of the two options by which a queue, if it had them, would get its own messages back."""
    following: dict[str, str | None] = {}
    if dead_letter_queue is not None:
        linked = Queue.objects.using(using).exclude(dead_letter_queue=None)
        following = {**dict(linked.values_list("name", "dead_letter_queue__name")), name: dead_letter_queue}
    return dead_letters.links_back(name, following, expiry_queue)
