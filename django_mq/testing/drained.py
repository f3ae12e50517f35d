"""What a drain has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.delivery.codecs import ReceivedMessage


@dataclass(frozen=True, slots=True)
class DrainedMessage:
    """One attempt of a drain, or what became of a message without one."""

    message: ReceivedMessage
    #: The dotted name of the handler, or the name of the Celery task; blank for a message that has expired.
    handler: str
    #: "accepted", "retried", "released", "declined", "dead", "expired"; of a Celery task also "failed", "revoked".
    outcome: str
    #: What the handler has raised.
    error: BaseException | None = None

    @property
    def queue(self) -> str:
        return self.message.queue

    def __str__(self) -> str:
        raised = "" if self.error is None else f": {self.error!r}"
        return f"{self.outcome} {self.message!r} by {self.handler or 'no handler'}{raised}"


class Drained(tuple[DrainedMessage, ...]):
    """The attempts of a drain, in order."""

    __slots__ = ()

    @property
    def outcomes(self) -> list[str]:
        """The outcomes, in order."""
        return [attempt.outcome for attempt in self]

    @property
    def errors(self) -> list[BaseException]:
        """What handlers have raised, in order."""
        return [attempt.error for attempt in self if attempt.error is not None]

    def of(self, queue: str) -> Drained:
        """Return the attempts of a queue."""
        return Drained(attempt for attempt in self if attempt.queue == queue)

    def __repr__(self) -> str:
        return f"<drained {len(self)}: {'; '.join(map(str, self)) or 'nothing was ready'}>"
