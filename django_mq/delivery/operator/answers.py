"""The values that the verbs of the Python API take and return."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

#: The id of a message, as ``publish`` returned it or as text, or several.
MessageIds: TypeAlias = UUID | str | Iterable[UUID | str]


class Effect(StrEnum):
    """What happened to a message that was to be changed."""

    #: It was changed.
    DONE = "done"
    #: Its worker is asked to stop it, and removes it then.
    STOPPING = "stopping"
    #: A worker holds it, and it stays.
    HELD = "held"
    #: It is in a state that the verb is not for, there was nothing to change, or its target does not take it.
    UNCHANGED = "unchanged"
    #: It was there, and has left its queue meanwhile.
    ENDED = "ended"
    #: There is no message with this id: it was never published, or has ended.
    MISSING = "missing"


class Answer(NamedTuple):
    """What happened to one message in one queue."""

    message_id: UUID
    #: The queue in which it is now, or was; blank for a missing message.
    queue: str
    effect: Effect

    @property
    def done(self) -> bool:
        """Whether it was changed."""
        return self.effect is Effect.DONE
