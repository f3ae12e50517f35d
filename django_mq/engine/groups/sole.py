"""A whole queue for one consumer (Artemis' exclusive queue)."""

from typing import TYPE_CHECKING, Final

from django_mq.engine.groups.base import Groups

if TYPE_CHECKING:
    from django_mq.engine.message import Message

#: The one group that all messages are of.
EVERYTHING: Final = "everything"


class SoleReceiver(Groups):
    """The first consumer to take a message receives all of them until it leaves.

    The others stand by; not even one of a higher priority takes over.
    """

    __slots__ = ()

    def group_of(self, message: "Message") -> str:  # noqa: ARG002
        return EVERYTHING
