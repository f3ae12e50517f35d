"""Which listenings are told which ends, and which messages they want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.engine.decisions.ends import End, Ended
    from django_mq.seams.extension import Listening


def mark_of(message: Any, listening: Sequence[Listening]) -> str | None:
    """Return what the row of a message says: the names of the listenings that want it; None for none."""
    return " ".join([each.name for each in listening if each.wants is not None and each.wants(message)]) or None


def with_mark(mark: str | None, name: str) -> str:
    """Return the mark of a message with the name of one more listening."""
    names = mark.split() if mark else []
    return " ".join(names if name in names else [*names, name])


def concerns(mark: str, end: End, listening: Sequence[Listening]) -> bool:
    """Whether one of these listenings is told this end of a message with this mark."""
    names = mark.split()
    return any(each.name in names and end in each.ends for each in listening)


def wants_result(mark: str, listening: Sequence[Listening]) -> bool:
    """Whether one of these listenings is told what the handler of a message with this mark has returned."""
    names = mark.split()
    return any(each.returns and each.name in names for each in listening)


def told(
    ended: Sequence[tuple[str, Ended]], listening: Sequence[Listening]
) -> Iterator[tuple[Listening, list[Ended]]]:
    """Yield each listening with what it is told of these ends, which are given with the marks of the messages."""
    for each in listening:
        mine = [item for mark, item in ended if item.end in each.ends and each.name in mark.split()]
        if mine:
            yield each, mine
