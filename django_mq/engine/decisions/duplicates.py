"""Duplicate ids: which messages were published before. An id is a unique key for a window that its queue says."""

from typing import Final

from django_mq.engine.decisions.unique import Standing, is_free
from django_mq.errors import DuplicateMessage

#: How many ids are remembered by default.
DEFAULT_SIZE: Final = 20_000


def used_before(queue: str, duplicate_id: object, user: object) -> DuplicateMessage:
    """Return the error for a message with a duplicate id that was used before."""
    return DuplicateMessage(
        f"Duplicate id {duplicate_id!r} was used in queue {queue!r} before, by message {user}."
    )


def id_taken(queue: str, message_id: object) -> DuplicateMessage:
    """Return the error for a message with an id that is in the queue already."""
    return DuplicateMessage(f"Message {message_id} is already in queue {queue!r}.")


def id_twice(message_id: object) -> DuplicateMessage:
    """Return the error for messages of which two have the same id."""
    return DuplicateMessage(f"Two of the messages have the id {message_id}.")


def is_over(used_at: float, now: float, seconds: float | None) -> bool:
    """Whether an id used at ``used_at`` is forgotten after ``seconds``; None: not by time."""
    return is_free("window", None if seconds is None else used_at + seconds, Standing.GONE, now)
