"""A window for messages of any size."""

from django_mq.engine.credit.window import WindowCredit


class PrefetchCredit(WindowCredit):
    """A window that lets one message of any size through while no bytes are outstanding.

    Without that exception a message larger than the byte limit would never be delivered.
    """

    __slots__ = ()

    def allows(self, size: int) -> bool:
        return (self.messages is None or self.outstanding < self.messages) and (
            self.size_bytes is None
            or self.outstanding_bytes + size <= self.size_bytes
            or (self.outstanding_bytes == 0 and self.size_bytes > 0)
        )
