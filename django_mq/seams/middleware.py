"""Middleware: functions around publishing, and around an attempt.

A middleware is called with a value and a function ``proceed``. It refuses by raising an exception. It changes what
follows by ``proceed(replace(value, ...))``. It wraps what it does around ``proceed()``, whose result it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from asgiref.sync import iscoroutinefunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Messages that are about to be written together, in the transaction of the store."""

    #: Each a ``stores.records.NewMessage``: checked, encoded, with its id; one for each queue that it goes to.
    messages: Sequence[Any]
    #: The ``stores.base.Store`` that writes them.
    store: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One message that is about to be given to its handler."""

    #: What the handler gets, a ``delivery.codecs.ReceivedMessage``; for a Celery task, a message like it.
    message: Any
    #: The ``delivery.consumer.handlers.Handler``, or the Celery task. Both have a ``name``.
    handler: Any
    #: Names what becomes of the message if the attempt ends with an error, or with None.
    outcome: Callable[[BaseException | None], str]


#: Does what the middleware is around, with the same value or the one that it is given, and returns its result.
Proceed: TypeAlias = Callable[..., Any]
PublishingMiddleware: TypeAlias = Callable[[Publication, Proceed], Any]
AttemptMiddleware: TypeAlias = Callable[[Execution, Proceed], Any]

#: Functions that return before their body has run, and their names.
NOT_RUN_BY_A_CALL = (
    (iscoroutinefunction, "a coroutine function"),
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
    (inspect.isgeneratorfunction, "a generator function"),
)

V = TypeVar("V")


def surrounded(middleware: Sequence[Callable[[V, Proceed], Any]], value: V, last: Callable[[V], Any]) -> Any:
    """Call the first middleware, around the second one, and so on, around the last function; return its result."""
    if not middleware:
        return last(value)

    def proceed(changed: V = value, /) -> Any:
        return surrounded(middleware[1:], changed, last)

    return middleware[0](value, proceed)
