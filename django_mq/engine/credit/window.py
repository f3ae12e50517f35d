"""Credit that settling a message gives back."""

from django_mq.engine.credit.amount import MOST, UNLIMITED, check_amount, total
from django_mq.engine.credit.base import Credit


class WindowCredit(Credit):
    """Ceilings on what is outstanding; settling a message opens the window again.

    A message larger than the byte ceiling is never delivered: see ``PrefetchCredit``.
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

    #: Kept up to date instead of computed: it is read more often than it changes.
    is_open: bool

    def __init__(self, messages: int | None = UNLIMITED, size_bytes: int | None = UNLIMITED) -> None:
        self.outstanding = 0
        self.outstanding_bytes = 0
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
        # Never below nothing: a settlement counted twice must not widen the window.
        if self.outstanding:
            self.outstanding -= 1
            left = self.outstanding_bytes - size
            # The call of max would cost as much as all the rest.
            self.outstanding_bytes = left = left if left > 0 else 0  # noqa: FURB136
            self.is_open = self.outstanding < self._message_ceiling and left < self._byte_ceiling

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        """Raise the ceilings."""
        check_amount(messages)
        check_amount(size_bytes)
        self.resize(total(self.messages, messages), total(self.size_bytes, size_bytes))

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        check_amount(messages)
        check_amount(size_bytes)
        self.messages = messages
        self.size_bytes = size_bytes
        # A number also where there is no limit: ``take`` then compares and asks nothing else.
        self._message_ceiling = _ceiling(messages)
        self._byte_ceiling = _ceiling(size_bytes)
        self._look_again()

    def _look_again(self) -> None:
        self.is_open = self.outstanding < self._message_ceiling and self.outstanding_bytes < self._byte_ceiling

    def stop(self) -> None:
        self.resize(0, 0)


def _ceiling(limit: int | None) -> int:
    return MOST if limit is None else limit
