"""What a handler of many gets at a time, and what its call decides.

A call that fails says nothing about a single message. So the messages are given to the handler again in halves,
until the one at fault stands alone: only such an attempt counts.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from django_mq.engine.decisions.verdict import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

T = TypeVar("T")

#: The most messages of a bulk: a settlement names each of them.
MOST_OF_BULK: Final = 10_000
#: How long the first message waits for others if the handler names no time, in seconds.
BULK_SECONDS: Final = 0.5
#: The longest such time that a handler may name, in seconds.
MOST_SECONDS: Final = 3600
#: Endings that give messages back, uncounted.
_GIVING_BACK: Final = frozenset({Ending.RELEASED, Ending.DECLINED})


def is_wait(value: object) -> bool:
    """Whether a handler may name this number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_SECONDS


class Done(NamedTuple):
    """What a handler of many returns for a message that it has handled, with the result of this message."""

    result: Any


class Gathered(Protocol):
    """A message that is to be in a bulk: what decides with which others."""

    suspect: bool
    #: How many attempts have failed.
    attempts: int


def gathered(line: Iterable[Gathered], most: int) -> int:
    """Return how many of the first messages form the next bulk; ``line`` has the waiting messages in order.

    A suspect stands alone: if the process dies, no other message is to blame. Messages that have failed before are
    apart from those of a first attempt, which they would make fail again.
    """
    size, has_failed, is_suspect = 0, False, False
    for message in islice(line, most):
        if not size:
            has_failed, is_suspect = message.attempts > 0, message.suspect
        elif is_suspect or message.suspect or (message.attempts > 0) is not has_failed:
            break
        size += 1
    return size


class BulkLine(NamedTuple):
    """The messages that wait for a handler of many."""

    number: int = 0
    #: Whether the first one is suspect.
    suspect: bool = False
    #: Whether others may join them: the handler has credit.
    may_grow: bool = True


def wait_seconds(line: BulkLine, most: int, waited_seconds: float, bulk_seconds: float) -> float:
    """Return for how long a bulk that waits already waits for more messages; 0 to begin it now."""
    if line.number >= most or line.suspect or not line.may_grow:
        return 0.0
    return max(0.0, bulk_seconds - waited_seconds)


def alike(part: Iterable[T], value_of: Callable[[T], Hashable], *, in_order: bool) -> list[list[T]]:
    """Return the messages in parts, each of one value; if ``in_order``, no message passes another."""
    if in_order:
        return [list(messages) for _, messages in groupby(part, value_of)]
    parts: dict[Hashable, list[T]] = {}
    for each in part:
        parts.setdefault(value_of(each), []).append(each)
    return list(parts.values())


def parts_after(part: Sequence[T], ending: Ending) -> list[Sequence[T]]:
    """Return the parts in which a handler gets messages again after an error; none to settle all of them.

    An error that gives messages back holds for each one of the call. Any other holds for a message that stands
    alone, and several are halved.
    """
    if len(part) < 2 or ending in _GIVING_BACK:
        return []
    middle = (len(part) + 1) // 2
    return [part[:middle], part[middle:]]


def behind(group: str | None, parts: Iterable[Sequence[T]], group_of: Callable[[T], str | None]) -> list[T]:
    """Return the messages behind one of their ``group`` that goes back to the queue: they go back, too."""
    return [] if group is None else [each for part in parts for each in part if group_of(each) == group]
