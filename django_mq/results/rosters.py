"""The members of chords as they were published, by which a duty finds those whose worker is gone.

A member that is acknowledged when it begins leaves nothing but its row of the history. That is found by the id of
the task, so a chord keeps the ids of its members: in one row, written when the last member is published. A member
costs no statement.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.results.places import AwaitedMember, MemberPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def write(store: Any, group_id: str, members: Iterable[AwaitedMember]) -> None:
    """Keep members of a chord, in the transaction that is open. Raises StoreError."""
    kept = [_packed(each) for each in members]
    if kept and store.features.durable:
        store.results.add_roster(group_id, json.dumps(kept, separators=(",", ":")))


def read(group_id: str, text: str) -> Iterator[AwaitedMember]:
    """Yield the members that ``write`` has kept."""
    for task_id, position, *more in json.loads(text):
        place = MemberPlace(group_id, task_id, position)
        yield AwaitedMember(place, *more) if more else AwaitedMember(place, [[task_id]])


def _packed(member: AwaitedMember) -> list[Any]:
    _, task_id, position = member.place
    is_plain = member.stages == [[task_id]] and not member.nesting
    return [task_id, position] if is_plain else [task_id, position, member.stages, member.nesting]
