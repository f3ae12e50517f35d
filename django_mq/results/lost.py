"""Members of chords whose messages end without a run: their chords end.

All other members store their ends themselves. Such a member is counted as failed, in the transaction in which its
message ends. What ends the chord calls code of the project, so a worker does it after the commit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.decisions.chords import CHORDS, LOSSES, ChordCount, ChordEnd, Loss, end_of, loss_of
from django_mq.results.places import members_in
from django_mq.seams.extension import Listening
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.ends import Ended
    from django_mq.results.places import MemberPlace
    from django_mq.stores.base import Store

JSON: Final = "application/json"
#: What is stored of a member: its state, and its error as Celery writes it.
ERRORS: Final = {
    Loss.EXPIRED: ("REVOKED", "TaskRevokedError", "celery.exceptions", "expired"),
    Loss.WORKER: (
        "FAILURE",
        "WorkerLostError",
        "billiard.exceptions",
        "The worker that ran the task is gone, and its message was acknowledged before.",
    ),
    Loss.REMOVED: ("REVOKED", "TaskRevokedError", "celery.exceptions", "The message of the task was removed."),
}


def note_lost(store: Store, ended: Sequence[Ended]) -> None:
    """Count members that are lost, and let a worker end their chords if no other member is missing."""
    if not store.features.durable:
        return
    lost = {
        member.place: loss
        for each in ended
        if (loss := loss_of(each))
        for member in members_in(headers_in(each.headers), each.body)
    }
    for place in sorted(lost):  # in one order: each locks the row of its chord
        count_lost(store, place, lost[place])


def error_of(loss: Loss) -> dict[str, str]:
    """Return what is stored of a lost task."""
    state, kind, module, text = ERRORS[loss]
    error = json.dumps({"exc_type": kind, "exc_message": [text], "exc_module": module})
    return {"status": state, "result": error, "content_type": JSON, "content_encoding": "utf-8"}


def count_lost(store: Any, place: MemberPlace, loss: Loss) -> bool:
    """Count a lost member in the open transaction; return whether it was not counted before."""
    count = store.results.count_lost({**place._asdict(), **error_of(loss), "expires_at": None})
    if count is not None and end_of(ChordCount(*count), clock.now()) is not ChordEnd.WAIT:
        store.results.end_later(place.group_id)
    return count is not None


#: The transport of Celery marks the messages: no other publish asks.
LISTENING: Final = Listening(name=CHORDS, ends=LOSSES, wants=None, tell=note_lost)
