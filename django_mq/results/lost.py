"""Members of chords whose messages end without a run: their chords end.

All other members store their ends themselves. Such a member is counted as failed, in the transaction in which its
message ends. What ends the chord calls code of the project, so a worker does it after the commit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django_mq.engine.decisions.chords import CHORDS, LOSSES, ChordCount, ChordEnd, Loss, end_of, loss_of
from django_mq.results.models import NO_POSITION
from django_mq.seams.extension import Listening
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.decisions.ends import Ended
    from django_mq.stores.base import Store

JSON: Final = "application/json"
#: What is stored of a member: its state, and its error as Celery writes it.
ERRORS: Final = {
    Loss.EXPIRED: ("REVOKED", "TaskRevokedError", "celery.exceptions", "expired"),
    Loss.REMOVED: ("REVOKED", "TaskRevokedError", "celery.exceptions", "The message of the task was removed."),
}


class MemberPlace(NamedTuple):
    """Where a member stands."""

    group_id: str
    task_id: str
    position: int


def places_in(ended: Ended) -> Iterator[MemberPlace]:
    """Yield the members of chords that end with a message: itself, and what follows it in its chain."""
    headers = headers_in(ended.headers)
    found = [(headers.get("group"), headers.get("id"), headers.get("group_index"))]
    try:
        chain = json.loads(ended.body)[2].get("chain") or () if ended.body else ()
        options = [each["options"] for each in chain]
        found += [(each.get("group_id"), each.get("task_id"), each.get("group_index")) for each in options]
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # another program has written it, or it is encrypted
    for group_id, task_id, position in found:
        if isinstance(group_id, str) and isinstance(task_id, str):
            yield MemberPlace(group_id, task_id, position if isinstance(position, int) else NO_POSITION)


def note_lost(store: Store, ended: Sequence[Ended]) -> None:
    """Count members that are lost, and let a worker end their chords if no other member is missing."""
    if not store.features.durable:
        return
    lost = {place: loss for each in ended if (loss := loss_of(each)) for place in places_in(each)}
    for place in sorted(lost):  # in one order: each locks the row of its chord
        _count(store, place, lost[place])


def _count(store: Any, place: MemberPlace, loss: Loss) -> None:
    state, kind, module, text = ERRORS[loss]
    error = json.dumps({"exc_type": kind, "exc_message": [text], "exc_module": module})
    count = store.results.count_lost(
        {
            **place._asdict(),
            "status": state,
            "result": error,
            "content_type": JSON,
            "content_encoding": "utf-8",
            "expires_at": None,
        }
    )
    if count is not None and end_of(ChordCount(*count), clock.now()) is not ChordEnd.WAIT:
        store.results.end_later(place.group_id)


#: The transport of Celery marks the messages: no other publish asks.
LISTENING: Final = Listening(name=CHORDS, ends=LOSSES, wants=None, tell=note_lost)
