"""Why a store refuses: the sentences, the same from every store."""

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
    """The store does not know a rule that other stores know."""
    return UnsupportedRule(f"This store does not know {rule}; leave it out, or use queues in memory.")


def several_queues() -> StoreError:
    """A consumer of one queue is to claim from several."""
    return StoreError("A claim for a consumer names the one queue of that consumer; claim for each queue apart.")


def queues_of_target() -> StoreError:
    """A target is to claim from queues that are named."""
    return StoreError("A claim for a target names no queue: it brings messages of all that the target reads.")


def only_shown(name: str) -> StoreError:
    """A claim without a consumer names a queue that gives nothing away."""
    return StoreError(f"Queue {name!r} shows its messages and gives none away; claim for a consumer of the queue.")


def exclusive(name: str) -> AccessRefused:
    """Another session has the queue to itself."""
    return AccessRefused(f"Queue {name!r} is exclusive, and another worker has it; wait until that one leaves.")


def no_such_queue(name: str) -> UnknownQueue:
    """Somebody names a queue that is not there."""
    return UnknownQueue(f"There is no queue {name!r}.", queue=name)


def undeclared(name: str) -> UnknownQueue:
    """A publisher names a queue that is not there."""
    return UnknownQueue(
        f"There is no queue {name!r}; declare it in DJANGO_MQ['QUEUES'], in the admin or by mq_queue create.",
        queue=name,
    )


def closed(name: str) -> QueueClosed:
    """The queue takes no more messages."""
    return QueueClosed(f"Queue {name!r} is closed.")


def linked(name: str, queues: int) -> QueueInUse:
    """A queue is to be deleted to which other queues send dead letters or expired messages."""
    return QueueInUse(f"{name!r} is the dead-letter or expiry queue of {queues} other queue(s).")


def not_empty(name: str, *, claimed: bool) -> QueueInUse:
    """A queue is to be deleted that holds messages, or, by force, one of which workers have ``claimed`` some."""
    return QueueInUse(f"{name!r} still holds messages" + (" that workers have claimed." if claimed else "."))


def not_taken(name: str, target: str) -> QueueInUse:
    """A queue is to be deleted whose messages do not all find room in its dead-letter queue."""
    return QueueInUse(
        f"{name!r} still holds messages, and its dead-letter queue {target!r} is closed, full, or has one of them "
        "already. Make room there, or purge the queue first, which drops its messages."
    )


def no_room(name: str) -> QueueFull:
    """Nothing can be moved into a queue."""
    return QueueFull(f"Queue {name!r} has no room for the first of these messages.", queue=name)


def unexplained(message: NewMessage) -> StoreUnavailable:
    """The message is not written, for a reason that this transaction does not see."""
    return StoreUnavailable(
        f"Queue {message.queue_name!r} did not take message {message.message_id}, and the reason is too new for"
        " this transaction to see: try again in a new one."
    )
