"""Which consumers may subscribe to a queue, how many of them receive, and when delivery begins.

Admission follows two rules of Qpid. A consumer may ask to be the only one, and is refused if there
are others. And a queue may belong to one session, connection, user or application: the
first to subscribe owns it.
"""

from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.arbiter import may_receive
from django_mq.errors import AccessRefused, ConsumersExist, ExclusiveConsumerExists, OutOfRange, TooManyConsumers
from django_mq.inprocess.entries.timeline import UNTOLD

if TYPE_CHECKING:
    from collections.abc import Collection

    from django_mq.inprocess.consumers.consumer import Consumer


class Exclusivity(Enum):
    """What kind of owner a queue has."""

    #: No client: every consumer may subscribe.
    NONE = "none"
    #: One consumer at a time, of any client.
    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"
    PRINCIPAL = "principal"
    CONTAINER = "container"


#: These name no client.
_OF_NO_CLIENT: Final = frozenset({Exclusivity.NONE, Exclusivity.LINK})
#: A session or connection ends, and its consumers with it; a user or an application comes back.
_PASSING: Final = frozenset({Exclusivity.SESSION, Exclusivity.CONNECTION})


class ConsumerAdmission:
    """Admits consumers to one queue, or refuses them. The queue holds its lock around every call.

    ``owner`` is the name of the session, connection, principal or container that owns the
    queue, or None. A session or connection owns it while it has a consumer there. A principal or
    a container owns it until ``owner`` is set to None; to keep it over a restart, set ``owner`` again.
    """

    def __init__(self, policy: Exclusivity = Exclusivity.NONE, max_consumers: int | None = None) -> None:
        self.policy = policy
        self.max_consumers = max_consumers
        self.owner: str | None = None

    def change(self, policy: Exclusivity, max_consumers: int | None, existing: "Collection[Consumer]") -> None:
        """Use other settings; under another policy, the first of the existing consumers becomes the owner."""
        self.max_consumers = max_consumers
        if policy is not self.policy:
            self.policy = policy
            names = (self._name_of(consumer) for consumer in existing if not consumer.transient)
            self.owner = next((name for name in names if name is not None), None)

    def admit(self, consumer: "Consumer", existing: "Collection[Consumer]") -> None:
        """Admit a consumer besides the existing ones; browsers count like any other.

        A transient one claims no exclusivity, but respects that of others.
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
                f"The queue belongs to one {self.policy.value}; give the consumer's client a {self.policy.value}."
            )
        if self.owner is not None and name != self.owner:
            raise AccessRefused(f"The queue belongs to another {self.policy.value}.")

    def _name_of(self, consumer: "Consumer") -> str | None:
        if self.policy in _OF_NO_CLIENT or consumer.client is None:
            return None
        name: str | None = getattr(consumer.client, self.policy.value)
        return name

    def left(self, consumer: "Consumer", remaining: "Collection[Consumer]") -> None:
        """Note that a consumer has left: with the last one of a session or connection the queue is free."""
        if self.policy not in _PASSING or self._name_of(consumer) != self.owner:
            return
        if not any(self._name_of(other) == self.owner for other in remaining):
            self.owner = None


_PRIORITY: Final = attrgetter("priority")


class LiveConsumers:
    """Lets at most ``most`` consumers receive; later ones stand by (Qpid).

    When a live consumer leaves, the one of the highest priority that stands by becomes live, among equals the
    oldest. It never replaces a live one, even one of a lower priority. The queue holds its
    lock around every call. Raises OutOfRange unless ``most`` is at least 1.

    With ``lasting``, a live consumer is live until it leaves, and ``most`` may be None: no limit for now.
    """

    def __init__(self, most: int, *, lasting: bool = False) -> None:
        self.most: int | None = _at_least_one(most)
        self._lasting = lasting
        self._all: dict[Consumer, None] = {}  # the oldest first
        self._live: set[Consumer] = set()

    def add(self, consumer: "Consumer") -> bool:
        """Add a consumer; return whether it is live."""
        self._all[consumer] = None
        if may_receive(consumer, self._live, self.most):
            self._live.add(consumer)
        return self.is_live(consumer)

    def is_live(self, consumer: "Consumer") -> bool:
        return consumer in self._live or (self._lasting and may_receive(consumer, self._live, self.most))

    def live(self) -> "frozenset[Consumer]":
        return frozenset(self._live)

    def remove(self, consumer: "Consumer") -> "Consumer | None":
        """Remove a consumer; return the one that became live for it, or None."""
        self._all.pop(consumer, None)
        self._live.discard(consumer)
        return self._promote()

    def resize(self, most: int | None) -> "list[Consumer]":
        """Set a new limit and return the consumers that became live; raises OutOfRange as the class.

        Live ones above the limit stand by at once unless they are lasting: those of the lowest priority first,
        among equals the youngest.
        """
        self.most = None if most is None and self._lasting else _at_least_one(most or 0)
        while not self._lasting and len(self._live) > (self.most or 0):
            youngest_first = (consumer for consumer in reversed(self._all) if consumer in self._live)
            self._live.remove(min(youngest_first, key=_PRIORITY))
        return list(iter(self._promote, None))

    def _promote(self) -> "Consumer | None":
        if self.most is None or len(self._live) >= self.most:
            return None
        standing_by = (consumer for consumer in self._all if consumer not in self._live)
        first = max(standing_by, key=_PRIORITY, default=None)  # of equals the first met, the oldest
        if first is not None:
            self._live.add(first)
        return first


def _at_least_one(most: int) -> int:
    if most < 1:
        raise OutOfRange(f"At least one consumer must be live, not {most}.")
    return most


class Gate:
    """Starts delivery with the ``consumers``-th consumer, or ``delay`` seconds after the first.

    It closes when the last consumer leaves, and does not open again while an entry is claimed.
    """

    def __init__(self, consumers: int = 0, delay: float | None = None) -> None:
        self._consumers = consumers
        self._delay = delay
        self.is_open = not self.guards
        #: When the delay ends; None: there is none, or it has not begun.
        self.opens_at: float | None = None

    @property
    def guards(self) -> bool:
        """Whether the gate is ever closed."""
        return self._consumers > 0 or self._delay is not None

    def look(self, consumers: int, claimed: int, now: float) -> bool:
        """Update the gate after a change of consumers or time; return whether it is open."""
        if self.is_open:
            self.is_open = not self.guards or consumers > 0
        elif consumers > 0:
            is_time = self._is_due(now) or 0 < self._consumers <= consumers
            self.is_open = is_time and claimed == 0
        if self.is_open or not consumers:
            self.opens_at = None
        return self.is_open

    def _is_due(self, now: float) -> bool:
        if self._delay is None:
            return False
        if self.opens_at is None or self.opens_at == UNTOLD:
            self.opens_at = now + self._delay
        return now >= self.opens_at > UNTOLD
