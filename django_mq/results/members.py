"""The members of a saved group, as far as its row can be read without the serialiser, and how many have ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import F, Value
from django.db.models.functions import Length, Substr

from django_mq.results.models import StoredResult
from django_mq.results.results import MANY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from django.db.models import QuerySet

    from django_mq.results.models import ResultGroup

#: Celery's states in which a task has ended.
ENDED: Final = frozenset({"SUCCESS", "FAILURE", "REVOKED"})
#: The most characters of the members that a list reads.
HEAD: Final = 8_000
#: The most members of which the states are read.
MOST: Final = 2_000


class Member(NamedTuple):
    """A task of a group, with the id of its result's row and its state; None if nothing is stored."""

    task_id: str
    row: int | None
    state: str | None


class EndedMembers(NamedTuple):
    """How many members of a group have ended."""

    ended: int
    members: int
    #: Whether there are more members, which were not looked at.
    is_cut: bool = False


def with_head(rows: QuerySet[ResultGroup]) -> QuerySet[Any]:
    """Leave out the members, and add their length, and the members of small groups."""
    return rows.defer("members").annotate(
        length=Length("members"), head=Substr(F("members"), Value(1), Value(HEAD + 1))
    )


def task_ids_in(text: str, content_type: str) -> list[str] | None:
    """Return the ids of the tasks of a group; None if they cannot be read."""
    if "json" not in content_type:
        return None
    try:
        found = json.loads(text)
        return list(_ids(found["result"]))
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def _ids(group: Any) -> Iterator[str]:
    """Yield the ids in what ``GroupResult.as_tuple`` has returned, also in groups of groups."""
    waiting = list(reversed(group[1] or ()))
    while waiting:
        (task_id, _parent), children = waiting.pop()
        if children is None:
            yield str(task_id)
        else:
            waiting.extend(reversed(children))


def members(task_ids: Collection[str], *, using: str) -> list[Member]:
    """Return the first members, in their order, each with its state."""
    wanted = list(task_ids)[:MOST]
    known = _states(wanted, using)
    return [Member(each, *known.get(each, (None, None))) for each in wanted]


def count(groups: Collection[Any], *, using: str) -> dict[str, EndedMembers]:
    """Return how many members of small groups, which have heads, have ended: by a statement for all of them."""
    ids = {
        group.group_id: found
        for group in groups
        if group.length <= HEAD and (found := task_ids_in(group.head, group.content_type)) is not None
    }
    wanted = list({each for found in ids.values() for each in found})[:MOST]
    states, known = _states(wanted, using), set(wanted)
    return {
        name: EndedMembers(sum(states.get(each, (None, None))[1] in ENDED for each in found), len(found))
        for name, found in ids.items()
        if known.issuperset(found)
    }


def _states(task_ids: list[str], using: str) -> dict[str, tuple[int, str]]:
    """Return the row and the state of each task of which something is stored."""
    found: dict[str, tuple[int, str]] = {}
    for start in range(0, len(task_ids), MANY):
        chosen = StoredResult.objects.using(using).filter(task_id__in=task_ids[start : start + MANY]).order_by()
        found |= {task_id: (pk, status) for task_id, pk, status in chosen.values_list("task_id", "pk", "status")}
    return found
