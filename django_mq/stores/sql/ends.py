"""Ends of claims and messages, told to extensions in the transaction in which they end.

A message says in its row which listenings are told. All parts that end claims or messages call this one. Where no
listening of this process wants a kind of end, nothing is read, and nothing is told.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from django_mq import conf
from django_mq.engine.decisions.ends import End, Ended
from django_mq.engine.decisions.verdict import ACCEPT
from django_mq.errors import TransactionLost
from django_mq.seams.ends import concerns, told
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.savepoints import savepoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from django_mq.engine.decisions.ends import RunOutcome
    from django_mq.seams.extension import Listening
    from django_mq.stores.base import Store
    from django_mq.stores.records import Moved, Settlement
    from django_mq.stores.sql.database import Rows


logger = logging.getLogger("django_mq.stores")


class Marked(NamedTuple):
    """A message that is marked, as it was before its end."""

    told_to: str
    message_id: UUID
    queue: str
    type: str
    headers: str
    properties: str | None
    body: bytes
    content_type: str
    content_encoding: str

    def ended(self, row: int, end: End, new_row: int | None = None) -> Ended:
        return Ended(
            row,
            self.message_id,
            self.queue,
            end,
            self.type,
            self.headers,
            self.properties,
            self.body,
            self.content_type,
            self.content_encoding,
            new_row,
        )


NO_OUTCOMES: Mapping[int, RunOutcome] = MappingProxyType({})
NOTHING_RETURNED: Mapping[int, str] = MappingProxyType({})
#: By row id.
Marks: TypeAlias = dict[int, Marked]


def _marks(rows: Rows) -> Marks:
    return {
        id_: Marked(told_to, UUID(str(message_id)), queue, type_, headers, properties, bytes(body), *content)
        for id_, told_to, message_id, queue, type_, headers, properties, body, *content in rows
    }


@dataclass(eq=False)
class Ends(Part):
    """Reads marks, and tells ends when the transaction ends, after all messages are locked."""

    store: Store
    #: What to tell before the commit: by row and end, so that nothing is told twice, with the listenings.
    _waiting: dict[tuple[int, End], tuple[str, Ended]] = field(init=False, default_factory=dict)

    @property
    def listening(self) -> Sequence[Listening]:
        return conf.extensions().ends

    def are_wanted(self, *ends: End) -> bool:
        """Whether a listening of this process wants one of these ends."""
        return any(not each.ends.isdisjoint(ends) for each in self.listening)

    def takes_steps(self, settlement: Settlement) -> bool:
        """Whether a settlement has to be told, which takes more than its statement."""
        if settlement.told_to is None:
            return False
        # A message that is given back may be removed then, because a later value has replaced it.
        return settlement.verdict is not ACCEPT or concerns(settlement.told_to, End.ACCEPTED, self.listening)

    # The marks. They are read before the change, and without locks: only the session that holds a message gives it
    # another mark, before it settles.

    def among(self, ids: Sequence[int], *ends: End) -> Marks:
        """Return which of these messages are marked; none if no listening wants these ends."""
        return _marks(self.rows("marked", ids=list(ids))) if ids and self.are_wanted(*ends) else {}

    def settling(self, settlements: Iterable[Settlement]) -> Marks:
        """Return which messages of settlements are marked, and have to be told."""
        return self.among([item.id for item in settlements if self.takes_steps(item)], *End)

    def held(self, session_id: int, *ends: End) -> Marks:
        """Return which messages of a session are marked."""
        return _marks(self.rows("marked_of_session", session=session_id)) if self.are_wanted(*ends) else {}

    # What is told.

    def after(self, ids: Sequence[int], end: End, write: Callable[[], list[int]]) -> list[int]:
        """Write what ends messages, and tell those whose ids it returns; return them."""
        if not self.are_wanted(end):
            return write()
        with self.database.transaction():
            marks = self.among(ids, end)
            gone = write()
            self.tell(marks, dict.fromkeys(gone, end))
        return gone

    def after_moving(self, ids: Sequence[int], write: Callable[[], list[Moved]]) -> list[Moved]:
        """The same for what gives messages other rows."""
        if not self.are_wanted(End.MOVED):
            return write()
        with self.database.transaction():
            marks = self.among(ids, End.MOVED)
            moved = write()
            self.tell(
                marks,
                {each.id: End.MOVED for each in moved if each.new_id != each.id},
                {each.id: each.new_id for each in moved},
            )
        return moved

    def tell(
        self,
        marks: Marks,
        ends: dict[int, End],
        new_rows: dict[int, int | None] | None = None,
        outcomes: Mapping[int, RunOutcome] = NO_OUTCOMES,
        returned: Mapping[int, str] = NOTHING_RETURNED,
    ) -> None:
        """Tell these ends of marked messages when the transaction that is open ends."""
        for id_, end in ends.items():
            if id_ in marks:
                new_row = None if new_rows is None else new_rows.get(id_)
                ended = marks[id_].ended(id_, end, new_row)
                ended = ended._replace(outcome=outcomes.get(id_), returned=returned.get(id_))
                self._waiting[id_, end] = marks[id_].told_to, ended
        if self._waiting and self.database.blocks:
            self.database.ending = self._tell, self._waiting.clear
        elif self._waiting:
            self._tell()  # the transaction is the caller's

    def _tell(self) -> None:
        waiting = [*self._waiting.values()]
        self._waiting.clear()
        for each, mine in told(waiting, self.listening):
            self._tell_one(each, mine)

    def _tell_one(self, listening: Listening, ended: list[Ended]) -> None:
        """Tell one listening; if it fails, log that and undo what it wrote."""
        try:
            with savepoint(self.database):
                listening.tell(self.store, ended)
        except TransactionLost:
            raise
        except Exception:
            logger.exception("The listening %r failed with %s ends of messages", listening.name, len(ended))
