"""The store that one scenario is played on: its clock, and names for what the scenario names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, UUID, uuid5

from django_mq.notifications.registry import LocalNotifier

if TYPE_CHECKING:
    from django_mq.engine.message import Message
    from django_mq.stores.base import Store

#: A server that has just started gives every session a deadline of grace; a scenario has none.
HEAD_START = timedelta(hours=1)


class Site:
    """A store whose clock stands where the scenario's does.

    One second of the engine's clock is ``scale`` seconds of the store's. It is so many that the
    real time which a scenario takes to play is nothing beside the shortest time it names.
    """

    def __init__(self, store: Store, scale: float) -> None:
        self.store = store
        self.notifier = LocalNotifier()
        self.scale = scale
        self._epoch = datetime.now(UTC) + HEAD_START
        #: By the id in the table: the message as the scenario knows it.
        self.messages: dict[UUID, Message] = {}

    def move_clock(self, now: float) -> None:
        """Let the store's clock stand at ``now``."""
        self.store.database.clock_offset = HEAD_START + timedelta(seconds=now * self.scale)

    def moment(self, at: float | None) -> datetime | None:
        """The store's time of an instant."""
        return None if at is None else self._epoch + timedelta(seconds=at * self.scale)

    def instant(self, moment: datetime | None) -> float | None:
        """The instant at a time of the store's; to the whole second, for writing it took a moment."""
        return None if moment is None else float(round((moment - self._epoch).total_seconds() / self.scale))

    def know(self, message: Message) -> UUID:
        """The id in the table of a message of the scenario."""
        number = uuid5(NAMESPACE_OID, message.id)
        self.messages[number] = message
        return number
