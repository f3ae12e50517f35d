"""Groups that stay with their first consumer (Qpid's standard groups, Artemis' groups)."""

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from django_mq.engine.groups.base import ORDER, Groups, header_text
from django_mq.errors import OutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from django_mq.engine.consumer import Consumer
    from django_mq.engine.entry import Entry
    from django_mq.engine.message import Message

#: The number of a message that is the last of its group; no other number means anything.
LAST_OF_GROUP: Final = -1


class AssignedGroups(Groups):
    """The first consumer to take a message of a group owns the group until it leaves.

    The group may run empty meanwhile. A message without the header ``key`` is of no group; without a
    ``key``, the publisher has named the group.

    Without ``buckets``, every group ever seen is remembered until its owner leaves. With it,
    groups are hashed into so many buckets, and those that share a bucket share its owner;
    ``owners`` then names for each bucket the one group that won it. Raises OutOfRange unless
    there is at least one bucket.

    A message whose header ``sequence_key`` is -1 still goes to the owner, and then sets its
    group (with all of its bucket) free. With ``rebalance`` every new consumer sets all groups
    free. In both cases the old owner may still hold messages of a group that has a new owner.
    """

    __slots__ = ("_buckets", "_key", "_rebalance", "_sequence_key")

    def __init__(
        self,
        key: str | None = None,
        buckets: int | None = None,
        rebalance: bool = False,
        *,
        sequence_key: str | None = None,
        position: "Callable[[Entry], Any]" = ORDER,
    ) -> None:
        super().__init__(position=position)
        if buckets is not None and buckets < 1:
            raise OutOfRange(f"Groups need at least one bucket, not {buckets}; None gives each its own.")
        self._key = key
        self._buckets = buckets
        self._rebalance = rebalance
        self._sequence_key = sequence_key

    def group_of(self, message: "Message") -> str | None:
        return message.group if self._key is None else header_text(message, self._key)

    def _slot(self, group: str) -> "Hashable":
        if self._buckets is None:
            return group
        # Not ``hash``, which differs from process to process; a lone surrogate is a legal header.
        return crc32(group.encode("utf-8", "surrogatepass")) % self._buckets

    def delivered(self, consumer: "Consumer", entry: "Entry") -> "Entry | None":
        if self._sequence_key is None or entry.message.headers.get(self._sequence_key) != LAST_OF_GROUP:
            return None
        group = self.group_of(entry.message)
        return None if group is None or not self.may_take(consumer, entry) else self.close(group)

    def joined(self, consumer: "Consumer") -> "Entry | None":  # noqa: ARG002
        return self.reset() if self._rebalance else None
