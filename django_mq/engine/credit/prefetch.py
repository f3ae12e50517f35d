"""A window for messages of any size."""

from django_mq.engine.credit.window import WindowCredit


class PrefetchCredit(WindowCredit):
    """A window that lets one message of any size through while no bytes are outstanding.

    Without that exception a message larger than the byte limit would never be delivered.
    """

    __slots__ = ()

    def allows(self, size: int) -> bool:
        return self.is_open and (not self.outstanding_bytes or super().allows(size))

    def take(self, size: int) -> bool:
        if self.outstanding_bytes:
            return super().take(size)
        if not self.is_open:
            return False
        self.outstanding += 1
        self.outstanding_bytes = size
        self._look_again()
        return True
