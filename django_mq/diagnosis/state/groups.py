"""The groups of a queue: how many messages of each wait and are claimed, and which worker owns it.

Only the first messages of the queue are read, along the index of the claims.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq.diagnosis.messages.indexes import ORDERS
from django_mq.models import Message, Ownership, WorkerSession
from django_mq.models.message import in_state

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The most messages read in each state, and the most groups returned.
SAMPLE = 10_000
MOST = 50


@dataclass(frozen=True, slots=True)
class Group:
    """A group, or, if ``key`` is None, a consumer slot of a queue that limits its consumers."""

    key: str | None
    ready: int
    claimed: int
    #: The session that owns the group, or else one that holds a message of it.
    session_id: int | None
    worker: str


def groups(queue_id: int, *, using: str) -> list[Group]:
    """Return the consumer slots, then the groups, those with most waiting messages first. Four statements."""
    ready = Counter(key for key, _ in _first(queue_id, Message.Status.READY, using) if key)
    held = [(key, session) for key, session in _first(queue_id, Message.Status.CLAIMED, using) if key]
    claimed = Counter(key for key, _ in held)
    owned = Ownership.objects.using(using).filter(queue_id=queue_id).order_by("id")
    owners = list(owned.values_list("group_key", "session_id")[:SAMPLE])
    of = dict(held) | {key: session for key, session in owners if key is not None}
    keys = sorted({*ready, *claimed, *of}, key=lambda key: (-ready[key], -claimed[key], key))[:MOST]
    slots = [session for key, session in owners if key is None][:MOST]
    sessions = {*slots, *(of[key] for key in keys if key in of)}
    rows = WorkerSession.objects.using(using).filter(pk__in=sessions)
    names: dict[Any, str] = dict(rows.values_list("pk", "name"))
    return [
        *(Group(None, 0, 0, session, names.get(session, "")) for session in slots),
        *(Group(key, ready[key], claimed[key], of.get(key), names.get(of.get(key), "")) for key in keys),
    ]


def _first(queue_id: int, state: Message.Status, alias: str) -> Iterable[tuple[str | None, int]]:
    """Return group and session of the first messages in a state, along its index."""
    rows = Message.objects.using(alias).filter(in_state(state), queue_id=queue_id).order_by(*ORDERS[state])
    return rows.values_list("group_key", "session_id")[:SAMPLE]
