"""The shortest part of a history that still disagrees, found by leaving things out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from django_mq.engine.options import QueueOptions
from tests.agreement.pair import Disagreement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agreement.history import History
    from tests.agreement.pair import Pair

#: Arguments that an operation does without.
OPTIONAL = (
    {"group", "key", "size", "delay", "deliver_at", "ttl", "expires_at", "dedup", "unique"}
    | {"slots", "listed", "max_bytes", "limits", "promoted", "in_order", "weight"}
    | {"counted", "failed", "claim", "kind", "spare", "tenant", "rate", "at_once"}
)


def shortest(pair: Pair, found: Disagreement, *, seconds: float = 90.0) -> Disagreement:
    """Return the disagreement of the shortest history that was found in so many seconds."""
    end = time.monotonic() + seconds
    best = _upto(found)
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for shorter in _shorter(best.history):
            if time.monotonic() > end:
                break
            again = _disagreement(pair, shorter)
            if again is not None and _kind(again) == _kind(found):
                best, changed = _upto(again), True
                break
    return best


def _kind(found: Disagreement) -> tuple[str, str]:
    """What a part must have in common with the whole, so that it shows the same fault."""
    return found.what, found.history.operations[found.step][0]


def _upto(found: Disagreement) -> Disagreement:
    """The same, without the operations that would have followed."""
    history = replace(found.history, operations=found.history.operations[: found.step + 1])
    return Disagreement(history, found.step, found.what, found.answers)


def _disagreement(pair: Pair, history: History) -> Disagreement | None:
    try:
        pair.play(history)
    except Disagreement as found:
        return found
    except Exception:  # noqa: BLE001 - a part without what it needs, such as the session of a claim
        return None
    return None


def _shorter(history: History) -> Iterator[History]:
    """Yield histories with something left out: operations, many first, then options, then arguments."""
    operations = history.operations
    size = max(1, len(operations) // 2)
    while True:
        for start in range(len(operations) - size, -1, -size):
            yield replace(history, operations=operations[:start] + operations[start + size :])
        if size == 1:
            break
        size //= 2
    yield from _fewer_limits(history)
    for name, options in history.queues.items():
        yield replace(history, queues={other: given for other, given in history.queues.items() if other != name})
        for option in options:
            fewer = {other: value for other, value in options.items() if other != option}
            if not list(QueueOptions(**fewer).contradictions()):
                yield replace(history, queues=history.queues | {name: fewer})
    for index, (name, given) in enumerate(operations):
        for less in _less(given):
            yield replace(history, operations=[*operations[:index], (name, less), *operations[index + 1 :]])


def _fewer_limits(history: History) -> Iterator[History]:
    for name, some in history.limits.items():
        yield replace(history, limits={other: given for other, given in history.limits.items() if other != name})
        for index in range(len(some) if len(some) > 1 else 0):
            yield replace(history, limits=history.limits | {name: some[:index] + some[index + 1 :]})


def _less(given: dict) -> Iterator[dict]:  # type: ignore[type-arg]
    """Yield arguments with one thing left out."""
    for name, value in given.items():
        if name in {"messages", "items", "consumers", "queues", "picks"} and isinstance(value, list):
            if len(value) > 1:
                yield from (given | {name: value[:index] + value[index + 1 :]} for index in range(len(value)))
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from (
                        given | {name: [*value[:index], less, *value[index + 1 :]]} for less in _less(item)
                    )
        elif isinstance(value, dict):
            yield from (given | {name: less} for less in _less(value))
        if name in OPTIONAL or (name == "priority" and "number" in given):
            yield {other: kept for other, kept in given.items() if other != name}
