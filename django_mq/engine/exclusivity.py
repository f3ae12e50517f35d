"""Who may subscribe to a queue.

Two rules of Qpid meet here. A single consumer may ask to be alone, and is refused if it
would not be. And a queue may belong to one session, connection, user or application: the
first that subscribes owns it.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final

from django_mq.errors import (
    AccessRefused,
    ConsumersExist,
    ExclusiveConsumerExists,
    TooManyConsumers,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from django_mq.engine.consumer import Consumer


class Exclusivity(Enum):
    """Whom a queue may belong to."""

    #: Nobody: all are welcome.
    NONE = "none"
    #: One consumer at a time, whosever it is.
    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"
    PRINCIPAL = "principal"
    CONTAINER = "container"


#: Those that name no client.
_OF_NO_CLIENT: Final = frozenset({Exclusivity.NONE, Exclusivity.LINK})

#: A session or connection ends, and its consumers with it; a user or an application comes back.
_PASSING: Final = frozenset({Exclusivity.SESSION, Exclusivity.CONNECTION})


class Admission:
    """Lets consumers in to one queue, or refuses them. The queue holds its lock around every call.

    ``owner`` is the name of the session, connection, principal or container the queue belongs
    to, or None. A session or connection owns it while it has a consumer there; a principal or
    a container until ``owner`` is set to None, over a restart too if somebody sets it again.
    """

    __slots__ = ("max_consumers", "owner", "policy")

    def __init__(self, policy: Exclusivity = Exclusivity.NONE, max_consumers: int | None = None) -> None:
        self.policy = policy
        self.max_consumers = max_consumers
        self.owner: str | None = None

    def change(self, policy: Exclusivity, max_consumers: int | None, existing: "Collection[Consumer]") -> None:
        """Follow other rules; under another policy the queue belongs to the first that is there."""
        self.max_consumers = max_consumers
        if policy is not self.policy:
            self.policy = policy
            names = (self._name_of(consumer) for consumer in existing if not consumer.transient)
            self.owner = next((name for name in names if name is not None), None)

    def admit(self, consumer: "Consumer", existing: "Collection[Consumer]") -> None:
        """Let a consumer in beside those that are there; browsers count like any other.

        A transient one claims nothing for itself, but respects what others have claimed.
        Raises a SubscriptionRefused, with nothing changed.
        """
        if any(other.exclusive and not other.transient for other in existing):
            raise ExclusiveConsumerExists
        self._check_policy(consumer, existing)
        if existing and consumer.exclusive and not consumer.transient:
            raise ConsumersExist
        if self.max_consumers is not None and len(existing) >= self.max_consumers:
            raise TooManyConsumers
        if self.owner is None and not consumer.transient:
            self.owner = self._name_of(consumer)

    def _check_policy(self, consumer: "Consumer", existing: "Collection[Consumer]") -> None:
        if self.policy is Exclusivity.LINK and existing:
            raise AccessRefused("The queue takes one consumer at a time; wait until the other one leaves.")
        if self.policy in _OF_NO_CLIENT:
            return
        name = self._name_of(consumer)
        if name is None:
            raise AccessRefused(
                f"The queue belongs to one {self.policy.value}; give the consumer a client with one."
            )
        if self.owner is not None and name != self.owner:
            raise AccessRefused(f"The queue belongs to another {self.policy.value}.")

    def _name_of(self, consumer: "Consumer") -> str | None:
        if self.policy in _OF_NO_CLIENT or consumer.client is None:
            return None
        name: str | None = getattr(consumer.client, self.policy.value)
        return name

    def left(self, consumer: "Consumer", remaining: "Collection[Consumer]") -> None:
        """A consumer has left: with the last of its session or connection the queue is free."""
        if self.policy not in _PASSING or self._name_of(consumer) != self.owner:
            return
        if not any(self._name_of(other) == self.owner for other in remaining):
            self.owner = None
