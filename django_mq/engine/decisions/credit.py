"""How many messages and bytes a consumer may receive before it settles some.

A credit mode is a subclass of Credit. A queue uses only the methods of that class.
"""

from abc import ABC, abstractmethod
from typing import Final

from django_mq.errors import OutOfRange

#: The amount without a limit.
UNLIMITED: Final = None

#: The largest amount; sums stop here.
MOST: Final = 2**63


def check_amount(amount: object) -> None:
    """Raise OutOfRange unless this is a whole number in 0..MOST, or None."""
    # True is an int for Python, and a mistake as an amount.
    if amount is not UNLIMITED and (
        type(amount) is bool or not isinstance(amount, int) or not 0 <= amount <= MOST
    ):
        raise OutOfRange(f"Credit is a whole number in 0..2**63, or None for any number, not {amount!r}.")


def total(amount: int | None, more: int | None) -> int | None:
    """Return the sum, at most MOST; UNLIMITED if either amount is unlimited."""
    return UNLIMITED if amount is UNLIMITED or more is UNLIMITED else min(amount + more, MOST)


class Credit(ABC):
    """What a consumer may still receive. Guard it with the queue's lock.

    Amounts are whole numbers in 0..2**63; None is unlimited. A method that raises has
    changed nothing.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether any message may be delivered, however small."""

    @property
    @abstractmethod
    def free(self) -> int | None:
        """How many more messages the limit of messages allows; None is any number."""

    @abstractmethod
    def allows(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be delivered now; never if the credit is not open."""

    @abstractmethod
    def take(self, size: int) -> bool:
        """Use credit for one message. Return False, and use nothing, if there is not enough."""

    def give_back(self, size: int) -> None:  # noqa: B027
        """Note that a delivered message of ``size`` bytes was settled. Some modes ignore this."""

    @abstractmethod
    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        """Add credit. None makes the amount unlimited; later additions change nothing.

        Raises OutOfRange for a wrong amount, and UncountedUnit for a unit that the mode
        does not count.
        """

    @abstractmethod
    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        """Set new limits or balances.

        If more than a new limit is outstanding, nothing is delivered until enough is settled.

        Raises as ``add``; pass None for a unit that the mode does not count.
        """

    def stop(self) -> None:
        """Allow nothing more until ``resize`` or ``add``, even when messages are settled.

        This sets every limit to 0, even an unlimited one. So ``add`` must then give messages and bytes.
        """
        self.resize(0, 0)


class WindowCredit(Credit):
    """Limits on what is outstanding; settling a message makes room for another.

    A message larger than the byte limit is never delivered: see ``PrefetchCredit``.
    """

    __slots__ = (
        "_byte_ceiling",
        "_message_ceiling",
        "is_open",
        "messages",
        "outstanding",
        "outstanding_bytes",
        "size_bytes",
    )

    #: An attribute, not a property: it is read more often than it changes.
    is_open: bool

    def __init__(self, messages: int | None = UNLIMITED, size_bytes: int | None = UNLIMITED) -> None:
        self.outstanding = self.outstanding_bytes = 0
        self.resize(messages, size_bytes)

    @property
    def free(self) -> int | None:
        if not self.is_open:
            return 0
        return None if self.messages is None else self.messages - self.outstanding

    def allows(self, size: int) -> bool:
        return self.is_open and self.outstanding_bytes + size <= self._byte_ceiling

    def take(self, size: int) -> bool:
        outstanding_bytes = self.outstanding_bytes + size
        if not self.is_open or outstanding_bytes > self._byte_ceiling:
            return False
        self.outstanding += 1
        self.outstanding_bytes = outstanding_bytes
        self.is_open = self.outstanding < self._message_ceiling and outstanding_bytes < self._byte_ceiling
        return True

    def give_back(self, size: int) -> None:
        # Never below 0: a settlement counted twice must not widen the window.
        if self.outstanding:
            self.outstanding -= 1
            left = self.outstanding_bytes - size
            # Calling max would double the time of this method.
            self.outstanding_bytes = left = left if left > 0 else 0  # noqa: FURB136
            self.is_open = self.outstanding < self._message_ceiling and left < self._byte_ceiling

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        check_amount(messages)
        check_amount(size_bytes)
        self.resize(total(self.messages, messages), total(self.size_bytes, size_bytes))

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        check_amount(messages)
        check_amount(size_bytes)
        self.messages, self.size_bytes = messages, size_bytes
        # An unlimited amount becomes a number, too, so that ``take`` only compares.
        self._message_ceiling = MOST if messages is None else messages
        self._byte_ceiling = MOST if size_bytes is None else size_bytes
        self.is_open = self.outstanding < self._message_ceiling and self.outstanding_bytes < self._byte_ceiling


class PrefetchCredit(WindowCredit):
    """A window that lets one message of any size through while no bytes are outstanding.

    Without that exception a message larger than the byte limit would never be delivered.
    """

    __slots__ = ()

    def allows(self, size: int) -> bool:
        return self.is_open and (not self.outstanding_bytes or super().allows(size))

    def take(self, size: int) -> bool:
        if not self.allows(size):
            return False
        self.outstanding += 1
        self.outstanding_bytes += size
        self.is_open = self.outstanding < self._message_ceiling and self.outstanding_bytes < self._byte_ceiling
        return True
