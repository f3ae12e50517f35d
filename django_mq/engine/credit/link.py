"""Credit as AMQP 1.0 counts it: a number of messages that the client sends."""

from django_mq.engine.credit.amount import UNLIMITED, check_amount, total
from django_mq.engine.credit.base import Credit
from django_mq.errors import UncountedUnit


class LinkCredit(Credit):
    """So many messages, of any size. It starts with none, and settling gives none back.

    A client that sets ``drain`` wants what there is now and no more: when nothing is left to
    deliver, ``use_up`` takes the rest of its credit away.
    """

    __slots__ = ("drain", "messages")

    messages: int | None

    def __init__(self, messages: int | None = 0) -> None:
        #: Whether credit that finds no message is to be used up.
        self.drain = False
        self.resize(messages)

    @property
    def is_open(self) -> bool:
        return self.messages != 0

    @property
    def free(self) -> int | None:
        return self.messages

    def allows(self, size: int) -> bool:  # noqa: ARG002 (bytes are not counted)
        return self.messages != 0

    def take(self, size: int) -> bool:  # noqa: ARG002 (bytes are not counted)
        if self.messages == 0:
            return False
        if self.messages is not None:
            self.messages -= 1
        return True

    def give_back(self, size: int) -> None:
        """Nothing: the client sends more when it wants more."""

    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        if size_bytes != 0:
            raise UncountedUnit
        check_amount(messages)
        self.messages = total(self.messages, messages)

    def resize(self, messages: int | None, size_bytes: int | None = UNLIMITED) -> None:
        """Set the credit, as a flow frame does."""
        if size_bytes is not UNLIMITED:
            raise UncountedUnit
        check_amount(messages)
        self.messages = messages

    def stop(self) -> None:
        self.messages = 0

    def use_up(self) -> int:
        """To be called when nothing is left to deliver; answer how much credit was taken away.

        Nothing happens, and the answer is 0, unless ``drain`` is set. Credit without limit
        counts as none.
        """
        if not self.drain:
            return 0
        unused, self.messages = self.messages or 0, 0
        return unused
