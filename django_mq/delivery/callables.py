"""What can be a handler: a callable that does its work when it is called with one message."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction

from django_mq.errors import HandlerNotRun

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions whose call returns before their body has run, with the word for them.
NOT_RUN_BY_A_CALL = (
    (iscoroutinefunction, "a coroutine function"),
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
    (inspect.isgeneratorfunction, "a generator function"),
)


def unfit(function: Any) -> str | None:
    """Return why a callable cannot be a handler, as the end of a sentence; None if it can."""
    if not callable(function):
        return "cannot be called; decorate a function"
    for is_such, word in NOT_RUN_BY_A_CALL:
        if is_such(function) or is_such(_call_of(function)):
            return f"is {word}, which does not run when it is called; write a plain function"
    if not _takes_one(function):
        return "cannot be called with one positional argument, the message"
    return None


def check_run(result: Any) -> None:
    """Raise HandlerNotRun if what a handler has returned shows that its work is still to be run."""
    if not (inspect.isawaitable(result) or isinstance(result, Generator | AsyncGenerator)):
        return
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns of it wherever the garbage is collected
    raise HandlerNotRun(
        f"The handler returned a {type(result).__name__}, so its work did not run; run the work in the handler."
    )


def _call_of(function: Any) -> Any:
    """Return the ``__call__`` of a callable object, also of one inside of partials."""
    while isinstance(function, partial):
        function = function.func
    return None if isinstance(function, type) else getattr(type(function), "__call__", None)  # noqa: B004 - not whether, but which


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        # A wrapper is called with its own arguments, not with those that it gives to the wrapped function.
        inspect.signature(function, follow_wrapped=False).bind(None)
    except ValueError:
        return True  # some built-in callables have no signature
    except TypeError:
        return False
    return True
