"""Another try for an operation that a dead-lock or a long wait ended: nothing of it has happened."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django_mq.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK_WAIT_TIMEOUT, DEADLOCK, DUPLICATE = 1205, 1213, 1062
TRIES = 3

Method = TypeVar("Method", bound="Callable[..., Any]")


def code_of(error: BaseException) -> int | None:
    """Return the number of the server's error behind one of Django's or ours, None if there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if cause.args and isinstance(cause.args[0], int):
            return cause.args[0]
        cause = cause.__cause__
    return None


def retried(method: Method) -> Method:
    """Let a store's method be tried again, unless it is a part of somebody's transaction."""

    @wraps(method)
    def trying(store: Any, *args: Any, **kwargs: Any) -> Any:
        for _ in range(TRIES - 1):
            try:
                return method(store, *args, **kwargs)
            except StoreUnavailable as error:
                if store.is_inside or code_of(error) not in {LOCK_WAIT_TIMEOUT, DEADLOCK}:
                    raise
        return method(store, *args, **kwargs)

    return cast("Method", trying)
