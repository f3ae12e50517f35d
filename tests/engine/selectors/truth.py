"""What a selector says of some headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.selector import Selector
from tests.engine.builders import message

if TYPE_CHECKING:
    from collections.abc import Mapping


def truth(condition: str, headers: Mapping[str, object] | None = None) -> bool | None:
    """True, False or, for unknown, None: unknown is what matches neither itself nor its opposite."""
    asked = message(headers=headers or {})
    if Selector(condition).matches(asked):
        return True
    return False if Selector(f"NOT ({condition})").matches(asked) else None
