"""The errors that stores raise, with their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.errors import (
    AccessRefused,
    QueueClosed,
    QueueFull,
    QueueInUse,
    StoreError,
    StoreUnavailable,
    UnknownQueue,
    UnsupportedRule,
)

if TYPE_CHECKING:
    from django_mq.stores.records import NewMessage


def unsupported(rule: str) -> UnsupportedRule:
    return UnsupportedRule(f"This store does not support {rule}; leave it out, or use queues in memory.")


def unsupported_in_memory(rule: str) -> UnsupportedRule:
    return UnsupportedRule(f"Queues in memory do not support {rule}; use a database.")


def several_queues() -> StoreError:
    return StoreError("A claim for a consumer names the one queue of that consumer; claim for each queue apart.")


def queues_of_target() -> StoreError:
    return StoreError("A claim for a target names no queue: it brings messages of all that the target reads.")


def only_shown(name: str) -> StoreError:
    return StoreError(f"The messages of queue {name!r} can only be browsed; claim for a consumer of the queue.")


def exclusive(name: str) -> AccessRefused:
    return AccessRefused(f"Queue {name!r} is exclusive, and another worker has it; wait until that worker stops.")


def no_such_queue(name: str) -> UnknownQueue:
    return UnknownQueue(f"There is no queue {name!r}.", queue=name)


def undeclared(name: str) -> UnknownQueue:
    return UnknownQueue(
        f"There is no queue {name!r}; declare it in DJANGO_MQ['QUEUES'], in the admin or by mq_queue create.",
        queue=name,
    )


def closed(name: str) -> QueueClosed:
    return QueueClosed(f"Queue {name!r} is closed.")


def linked(name: str, queues: int) -> QueueInUse:
    return QueueInUse(f"{name!r} is the dead-letter or expiry queue of {queues} other queue(s).")


def not_empty(name: str, *, claimed: bool) -> QueueInUse:
    if claimed:
        return QueueInUse(f"{name!r} still holds messages that workers have claimed. Wait until they have ended.")
    return QueueInUse(
        f"{name!r} still holds messages. With force (mq_queue delete --force), they move to its dead-letter queue,"
        " or are deleted if it has none."
    )


def not_taken(name: str, target: str) -> QueueInUse:
    return QueueInUse(
        f"{name!r} still holds messages, and its dead-letter queue or exchange {target!r} does not take one of "
        "them. Make room there, or purge the queue first, which drops its messages."
    )


def full(name: str) -> QueueFull:
    return QueueFull(f"Queue {name!r} is full: the first of these messages does not fit.", queue=name)


def unexplained(message: NewMessage) -> StoreUnavailable:
    return StoreUnavailable(
        f"Queue {message.queue_name!r} did not take message {message.message_id}, for a reason that"
        " this transaction cannot see yet. Try again in a new transaction."
    )
