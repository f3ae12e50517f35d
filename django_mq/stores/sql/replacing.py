"""Last values: a newer message takes the place of the older one with its key, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.engine.last_value import BY_LATER_VALUE, is_outdone, replaced
from django_mq.stores.sql.admitting import Admitting
from django_mq.stores.sql.steering import REPLACED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.room import Room


class Replacing(Admitting):
    """Keep one message per key, and what is held until it is settled."""

    def _replace_values(self, room: Room, keys: Mapping[int, str]) -> None:
        """Note the keys of new rows, given in the order of their arrival, and replace what was there."""
        for id_, key in keys.items():
            self._rows("set_value_key", id=id_, key=key)
        latest = {key: id_ for id_, key in keys.items()}
        for key, newest in latest.items():
            if self._replace_older(room.queue_id, key, newest):
                room.exact = False  # there is more room than was counted

    def _replace_older(self, queue_id: int, key: str, newest: int) -> int:
        """Replace what else is there with the key; return how many messages went at once."""
        gone, held = replaced(self._others(queue_id, key, newest))
        if held:
            self._rows("mark_replaced", ids=held, replaced=BY_LATER_VALUE)
        return self._remove(gone, REPLACED) if gone else 0

    def _keep_latest(self, queue_id: int, key: str, id_: int) -> None:
        """A message is ready again: let it replace older ones, or be replaced if there is a later one."""
        if is_outdone(id_, [other for other, _ in self._others(queue_id, key, id_)]):
            self._remove([id_], REPLACED)
        else:
            self._replace_older(queue_id, key, id_)

    def _others(self, queue_id: int, key: str, id_: int) -> list[tuple[Any, ...]]:
        """Return the other messages with a key that no later value has replaced, each with its state."""
        return self._rows("older_values", queue_id=queue_id, key=key, newest=id_, replaced=BY_LATER_VALUE)
