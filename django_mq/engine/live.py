"""A few consumers that receive, and others that stand by for them."""

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from django_mq.engine.arbiter import may_receive
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.consumer import Consumer

_PRIORITY: Final = attrgetter("priority")


class LiveConsumers:
    """At most ``most`` consumers receive; who comes later stands by (Qpid).

    When a live one leaves, the standby of the highest priority follows, among equals the
    oldest. A standby never drives a live one out, whatever its priority. The queue holds its
    lock around every call. Raises OutOfRange unless ``most`` is at least 1.

    With ``lasting``, a live consumer is live until it leaves, and ``most`` may be None: no limit for now.
    """

    __slots__ = ("_all", "_lasting", "_live", "most")

    def __init__(self, most: int, *, lasting: bool = False) -> None:
        self.most: int | None = _at_least_one(most)
        self._lasting = lasting
        self._all: dict[Consumer, None] = {}  # the oldest first
        self._live: set[Consumer] = set()

    def add(self, consumer: "Consumer") -> bool:
        """A consumer has come; whether it is live."""
        self._all[consumer] = None
        if may_receive(consumer, self._live, self.most):
            self._live.add(consumer)
        return self.is_live(consumer)

    def is_live(self, consumer: "Consumer") -> bool:
        """Whether the consumer may receive."""
        return consumer in self._live or (self._lasting and may_receive(consumer, self._live, self.most))

    def live(self) -> "frozenset[Consumer]":
        """Return the consumers that receive."""
        return frozenset(self._live)

    def remove(self, consumer: "Consumer") -> "Consumer | None":
        """A consumer has left; who became live for it."""
        self._all.pop(consumer, None)
        self._live.discard(consumer)
        return self._promote()

    def resize(self, most: int | None) -> "list[Consumer]":
        """Set a new limit and answer who became live; raises OutOfRange as declared.

        Too many live ones are cut at once unless they are lasting: those of the lowest priority,
        among equals the youngest, stand by again.
        """
        self.most = None if most is None and self._lasting else _at_least_one(most or 0)
        while not self._lasting and len(self._live) > (self.most or 0):
            self._live.remove(min(self._youngest_live(), key=_PRIORITY))
        return list(iter(self._promote, None))

    def _youngest_live(self) -> "Iterator[Consumer]":
        return (consumer for consumer in reversed(self._all) if consumer in self._live)

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
        raise OutOfRange(f"At least one consumer is live, not {most}.")
    return most
