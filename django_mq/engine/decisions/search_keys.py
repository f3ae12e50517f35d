"""The search keys of a queue: what an operator may find its messages by, also long after they have finished.

A queue names headers, fields of bodies, and keyword arguments of tasks. Each message has their values as keys.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django_mq.engine.options import is_storable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

#: The most keys of a queue, and the most characters of a name and of a value.
MOST_KEYS: Final = 5
NAME_LENGTH: Final = 100
VALUE_LENGTH: Final = 255


def names_in(declared: str) -> tuple[str, ...]:
    """Return the names that a queue declares, with spaces or commas between them."""
    return tuple(dict.fromkeys(declared.replace(",", " ").split()))


def fault_of(declared: str, masked: Collection[str]) -> str | None:
    """Return what is wrong with a declaration, or None; ``masked`` are the names that operators may not see."""
    names = names_in(declared)
    if len(names) > MOST_KEYS:
        return f"use at most {MOST_KEYS} names"
    if long := [name for name in names if len(name) > NAME_LENGTH or ":" in name]:
        return f"the name {long[0][:NAME_LENGTH]!r} is longer than {NAME_LENGTH} characters, or has a colon"
    hidden = {name.lower() for name in masked}
    for name in names:
        if any(part.lower() in hidden for part in name.split(".")):
            return f"{name!r} is hidden by MASK, and the search shows search keys to all its users; remove it"
    return None


def keys_of(names: Sequence[str], sources: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a message: each name with its value in the first of these values that has it.

    ``order.id`` is the field ``id`` of the field ``order``. A value that is no text, number or truth value is no
    key. A longer text is cut. Spaces around it are left out, as around the words of a search.
    """
    for name in names:
        for source in sources:
            value = _found(source, name)
            if isinstance(value, (str, int, float)):
                text = as_text(value).strip()[:VALUE_LENGTH].rstrip()
                if text and is_storable(text, VALUE_LENGTH):
                    yield name, text
                break


def as_text(value: Any) -> str:
    """Return a value as an operator types it: ``4711``, ``true``."""
    return value if isinstance(value, str) else json.dumps(value)


def _found(source: Any, name: str) -> Any:
    if not isinstance(source, dict):
        return None
    if name in source:
        return source[name]
    first, dot, rest = name.partition(".")
    return _found(source.get(first), rest) if dot else None
