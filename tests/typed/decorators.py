"""A decorator of another module, in which the names of the annotations are missing."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def of_two_modules(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a function whose parameter has the same name."""

    @wraps(function)
    def wrapper(body: Any) -> Any:
        return function(body)

    return wrapper
