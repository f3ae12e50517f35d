"""Middleware: what is around publishing, and around an attempt.

A middleware is an object with some of these methods. The first three are called with a value and a function
``proceed``, which does what follows, with the same value or the one that it is given, and returns its result.

    publish(publication, proceed)        around publishing
    process(attempt, proceed)            around an attempt of a function
    aprocess(attempt, proceed)           around an attempt of a coroutine function: a coroutine function itself
    group(message)                       names what messages have in common that a handler of many gets together
    decode(body, content_encoding)       undoes what ``publish`` has done to the bytes of a body
    encode(body, content_encoding)       does the same to what else of yours is stored: results of Django's tasks

A middleware that has only one of ``process`` and ``aprocess`` is adapted, as Django does with its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias, TypeVar

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async

from django_mq.errors import MiddlewareMisused, UnusableMiddleware


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
    #: All messages of a call of a handler of many, of which ``message`` is the first; empty for other handlers.
    messages: Sequence[Any] = ()


#: Does what the middleware is around, with the same value or the one that it is given, and returns its result.
Proceed: TypeAlias = Callable[..., Any]
PublishingMiddleware: TypeAlias = Callable[[Publication, Proceed], Any]
AttemptMiddleware: TypeAlias = Callable[[Execution, Proceed], Any]
AsyncAttemptMiddleware: TypeAlias = Callable[[Execution, Proceed], Awaitable[Any]]
#: Middleware of publishing for the code that runs in this context only, inside of all other.
within: ContextVar[tuple[PublishingMiddleware, ...]] = ContextVar("django_mq_publishing", default=())
#: Returns the bytes and the content encoding that they had before; None for an encoding that is not its own.
Decoder: TypeAlias = Callable[[bytes, str], tuple[bytes, str] | None]

#: Returns the bytes that are stored, and their content encoding.
Encoder: TypeAlias = Callable[[bytes, str], tuple[bytes, str]]

#: Functions that return before their body has run, and their names.
GENERATORS = (
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
    (inspect.isgeneratorfunction, "a generator function"),
)
NOT_RUN_BY_A_CALL = ((iscoroutinefunction, "a coroutine function"), *GENERATORS)


@dataclass(frozen=True, slots=True)
class Chains:
    """The methods of all middleware, the outermost first."""

    publishing: tuple[PublishingMiddleware, ...] = ()
    #: Around attempts of functions, and of coroutine functions.
    attempts: tuple[AttemptMiddleware, ...] = ()
    async_attempts: tuple[AsyncAttemptMiddleware, ...] = ()
    #: A handler of many gets those messages together for which all of these return the same.
    groups: tuple[Callable[[Any], Hashable], ...] = ()
    #: What changes the bytes of bodies, and undoes it, the innermost first.
    encoders: tuple[Encoder, ...] = ()
    decoders: tuple[Decoder, ...] = ()


def chains_of(middleware: Iterable[Any]) -> Chains:
    """Return the methods of these objects. Raises UnusableMiddleware."""
    every = tuple(middleware)
    for each in every:
        if problem := fault_of(each):
            raise UnusableMiddleware(f"The middleware {named(each)} {problem}.")
    around = [each for each in every if hasattr(each, "process") or hasattr(each, "aprocess")]
    return Chains(
        tuple(each.publish for each in every if hasattr(each, "publish")),
        tuple(each.process if hasattr(each, "process") else _blocking(each.aprocess) for each in around),
        tuple(each.aprocess if hasattr(each, "aprocess") else _in_a_thread(each.process) for each in around),
        tuple(each.group for each in every if hasattr(each, "group")),
        tuple(each.encode for each in every if hasattr(each, "encode")),
        tuple(each.decode for each in reversed(every) if hasattr(each, "decode")),
    )


#: The methods of a middleware, with the number of their arguments.
METHODS = {"publish": 2, "process": 2, "aprocess": 2, "group": 1, "encode": 2, "decode": 2}


def fault_of(middleware: Any) -> str | None:
    """Return why this object is no middleware, as the end of a sentence; None if it is one."""
    methods = {name: getattr(middleware, name) for name in METHODS if hasattr(middleware, name)}
    if not methods:
        return f"has none of the methods {', '.join(METHODS)}"
    for name, method in methods.items():
        if not callable(method) or not _takes(METHODS[name], method):
            return (
                f"has a {name} that cannot be called with {('one argument', 'two arguments')[METHODS[name] - 1]}"
            )
        if name == "aprocess":
            if not iscoroutinefunction(method):
                return "has an aprocess that is no coroutine function; write async def, or name it process"
            continue
        for is_such, word in NOT_RUN_BY_A_CALL:
            if is_such(method):
                instead = "; name it aprocess" if name == "process" and iscoroutinefunction(method) else ""
                return f"has a {name} that is {word}, which does not run when it is called{instead}"
    return None


def _takes(count: int, method: Callable[..., Any]) -> bool:
    try:
        inspect.signature(method).bind(*[None] * count)
    except ValueError:
        return True  # some built-in callables have no signature
    except TypeError:
        return False
    return True


def named(middleware: Any) -> str:
    """Return the name of a middleware, or of the one that has this method, for people."""
    method = inspect.unwrap(middleware) if callable(middleware) else middleware
    owner = getattr(method, "__self__", method)
    kind = owner if hasattr(owner, "__qualname__") else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _in_a_thread(process: AttemptMiddleware) -> AsyncAttemptMiddleware:
    """Return a synchronous middleware as one for coroutine functions.

    It holds a thread for as long as the attempt takes.
    """

    @wraps(process)
    async def aprocess(attempt: Execution, proceed: Proceed) -> Any:
        return await sync_to_async(process)(attempt, async_to_sync(proceed))

    return aprocess


def _blocking(aprocess: AsyncAttemptMiddleware) -> AttemptMiddleware:
    """Return an asynchronous middleware as one for functions; the function runs in the thread of the attempt."""

    @wraps(aprocess)
    def process(attempt: Execution, proceed: Proceed) -> Any:
        return async_to_sync(aprocess)(attempt, sync_to_async(proceed))

    return process


V = TypeVar("V")


class _Step:
    """Whether one middleware has proceeded. It does so once: what follows must not happen twice, or never.

    If what follows has raised an exception, the middleware may try again.
    """

    __slots__ = ("_begun", "_middleware", "_returned", "_running")

    def __init__(self, middleware: Any) -> None:
        self._middleware = middleware
        self._begun = self._running = self._returned = False

    def __enter__(self) -> None:
        if self._returned or self._running:
            when = "after it had returned" if self._returned else "before it had returned"
            raise MiddlewareMisused(f"{named(self._middleware)} has called proceed() again {when}; call it once.")
        self._begun = self._running = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._running, self._returned = False, kind is None

    def end(self, result: Any) -> Any:
        if not self._begun or self._running:
            what = "before proceed() has" if self._running else "without proceed(), so nothing was done"
            raise MiddlewareMisused(
                f"{named(self._middleware)} has returned {what}; return proceed(), or raise an exception."
            )
        return result


def surrounded(middleware: Sequence[Callable[[V, Proceed], Any]], value: V, last: Callable[[V], Any]) -> Any:
    """Call the first middleware, around the second one, and so on, around the last function; return its result.

    Raises MiddlewareMisused for a middleware that proceeds twice, or never.
    """
    if not middleware:
        return last(value)
    step = _Step(middleware[0])

    def proceed(changed: V = value, /) -> Any:
        with step:
            return surrounded(middleware[1:], changed, last)

    return step.end(middleware[0](value, proceed))


async def asurrounded(
    middleware: Sequence[Callable[[V, Proceed], Awaitable[Any]]], value: V, last: Callable[[V], Awaitable[Any]]
) -> Any:
    """Await what ``surrounded`` calls."""
    if not middleware:
        return await last(value)
    step = _Step(middleware[0])

    async def proceed(changed: V = value, /) -> Any:
        with step:
            return await asurrounded(middleware[1:], changed, last)

    return step.end(await middleware[0](value, proceed))
