"""Which members of a chord a message of Celery's leads to, and by which tasks, as its JSON says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The position of a member of a chord that has none: behind all others.
NO_POSITION: Final = 2**31 - 1
#: How Celery's JSON shows that tasks follow a task.
CHAIN_MARK: Final = '"chain": ['
#: The header that says how often a task has replaced itself.
NESTING: Final = "replaced_task_nesting"


class MemberPlace(NamedTuple):
    """Where a member stands."""

    group_id: str
    task_id: str
    position: int


class AwaitedMember(NamedTuple):
    """A member of a chord, with the tasks that run before it."""

    place: MemberPlace
    #: The ids of the tasks that lead to it, in their order; several where tasks run beside each other. The member
    #: itself is the last.
    stages: list[list[str]]
    #: The least nesting of the messages that count: a replaced task has the id of its replacement.
    nesting: int = 0


def members_in(headers: Mapping[str, Any], body: str | bytes) -> Iterator[AwaitedMember]:
    """Yield the members of chords that a message leads to: its own task, and what follows it in its chain."""
    first, nesting = headers.get("id"), _number(headers.get(NESTING), 0)
    if not isinstance(first, str):
        return
    stages = [[first]]
    if place := _place(headers.get("group"), first, headers.get("group_index")):
        yield AwaitedMember(place, stages, nesting)
    for each in reversed(_chain_in(body)):
        last = _last_of(each)
        options = last.get("options") if isinstance(last, dict) else None
        if not isinstance(options, dict):
            return
        # The header of a chord in the chain runs before its body.
        stages = [*stages, *([before] if (before := _ids_in(each, but=last)) else ()), list(_ids_in(last))]
        if last.get("task") == "celery.group":
            yield from _members_of_group(last, options.get("group_id"), stages[:-1], nesting)
        elif place := _place(options.get("group_id"), options.get("task_id"), options.get("group_index")):
            yield AwaitedMember(place, stages, nesting)


def _members_of_group(
    group: dict[str, Any], group_id: object, before: list[list[str]], nesting: int
) -> Iterator[AwaitedMember]:
    """Yield the tasks of a group at the end of a chain: Celery makes each of them a member."""
    tasks = (group.get("kwargs") or {}).get("tasks")
    for position, each in enumerate(tasks if isinstance(tasks, list) else ()):
        options = (each.get("options") or {}) if isinstance(each, dict) else {}
        if place := _place(group_id, options.get("task_id"), position):
            yield AwaitedMember(place, [*before, [place.task_id]], nesting)


def member_of(options: Mapping[str, Any], nesting: int) -> AwaitedMember | None:
    """Return the member of a chord that a task with these options is; None if it is none."""
    if not options.get("chord"):
        return None
    place = _place(options.get("group_id"), options.get("task_id"), options.get("group_index"))
    return None if place is None else AwaitedMember(place, [[place.task_id]], nesting)


def _place(group_id: object, task_id: object, position: object) -> MemberPlace | None:
    if isinstance(group_id, str) and isinstance(task_id, str):
        return MemberPlace(group_id, task_id, _number(position, NO_POSITION))
    return None


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _chain_in(body: str | bytes) -> list[Any]:
    """Return the signatures that follow, the last one first."""
    text = body if isinstance(body, str) else body.decode(errors="replace")
    if CHAIN_MARK not in text:
        return []  # most tasks: their arguments may be long
    try:
        found = json.loads(text)[2].get("chain")
    except (ValueError, LookupError, TypeError, AttributeError):
        return []  # another program has written it, or it is encrypted
    return found if isinstance(found, list) else []


def _last_of(signature: Any) -> Any:
    """Return the signature that ends another one: the body of a chord."""
    while isinstance(signature, dict) and signature.get("task") == "celery.chord":
        signature = (signature.get("kwargs") or {}).get("body")
    return signature


def _ids_in(signature: Any, *, but: Any = None) -> list[str]:
    """Return the ids of the tasks in a signature."""
    found, waiting = [], [signature]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and each is not but:
            task_id = (each.get("options") or {}).get("task_id")
            found += [task_id] if isinstance(task_id, str) else []
            waiting += [(each.get("kwargs") or {}).get(name) for name in ("tasks", "header", "body")]
    return found
