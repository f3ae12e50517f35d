"""Groups that any consumer may have, but only one at a time (Qpid's shared groups)."""

from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.groups.base import ORDER, Groups, header_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message

#: The group of the messages that name none.
DEFAULT_GROUP: Final = "no-group"


class SharedGroups(Groups):
    """A consumer owns a group while it holds at least one of its entries.

    So the messages of a group are never handled by two consumers at once, but one after the
    other may serve it. Messages without the header ``key`` are all of ``default_group``, which
    is a group like any other.

    An entry that failed and waits for a later attempt is held by nobody: the rest of its group
    goes on without it.
    """

    __slots__ = ("_default_group", "_key")

    outlasts_entries = False

    def __init__(
        self, key: str, default_group: str = DEFAULT_GROUP, *, position: "Callable[[Entry], Any]" = ORDER
    ) -> None:
        super().__init__(position=position)
        self._key = key
        self._default_group = default_group

    def group_of(self, message: "Message") -> str:
        group = header_text(message, self._key)
        return self._default_group if group is None else group
