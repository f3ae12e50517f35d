"""Handlers: the user's functions, each a consumer of one queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.utils.module_loading import autodiscover_modules

from django_mq import conf
from django_mq.delivery.callables import unfit
from django_mq.delivery.validation import plain
from django_mq.errors import ConfigurationError, NoHandler
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.delivery.message import ReceivedMessage

#: Messages a handler holds at a time unless it says otherwise.
DEFAULT_CREDIT = 20
#: Priorities of consumers reach so far up and down: what fits into four bytes.
PRIORITIES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A registered function and how it wants to be fed."""

    queue: str
    function: Callable[[ReceivedMessage], Any]
    credit: int
    time_limit_seconds: float | None
    transactional: bool = False
    priority: int = 0
    #: Whether the queue may have other handlers, too.
    shared: bool = False

    @property
    def name(self) -> str:
        """The function's dotted name, as shown to the operator."""
        return ".".join(_place_of(self.function))


_handlers: dict[str, list[Handler]] = {}


def consumer(
    queue: str,
    *,
    credit: int = DEFAULT_CREDIT,
    time_limit_seconds: float | None = None,
    transactional: bool = False,
    priority: int = 0,
    shared: bool = False,
) -> Callable[[Callable[[ReceivedMessage], Any]], Callable[[ReceivedMessage], Any]]:
    """Make a function a handler of a queue; put it into an app's ``consumers.py``.

    It is called with one message, in some thread. Returning accepts the message; raising
    counts a failed attempt, which is repeated after the queue's backoff until its maximum
    is reached; ``errors.Reject``, ``Release`` and ``Retry`` choose an outcome. ``credit``
    is how many messages one worker holds for it at a time. A call that exceeds
    ``time_limit_seconds`` counts as failed; its thread is given up, since Python cannot
    stop it.

    With ``transactional``, the call runs in a transaction on the queues' own database, which
    also accepts the message: what the handler writes there and its acknowledgement exist
    together or not at all, so each effect happens exactly once. If the message was given
    to another worker meanwhile, everything is rolled back.

    Where several workers consume the queue, one whose handler has a higher ``priority`` is
    served first, as long as it has credit; the others get what it has no credit for.

    A queue has one handler, unless each of its handlers is ``shared``: then each message goes to
    one of them, by priority, and to those of equal priority in turn. ``mq_worker`` runs them.

    Raises ConfigurationError for options that make no sense, for a second handler of the same
    queue that is not shared, and for a function that does not run when it is called with one message: a coroutine
    function, a generator function, one that takes another number of arguments.
    """
    if not conf.is_name(queue):
        raise ConfigurationError(f"@consumer wants the name of a queue, as in @consumer('orders'), not {queue!r}.")
    if credit < 1:
        raise ConfigurationError(f"credit of the handler of {queue!r} is {credit}; use 1 or more.")
    if time_limit_seconds is not None and not time_limit_seconds > 0:
        raise ConfigurationError(f"time_limit_seconds of the handler of {queue!r} is {time_limit_seconds}.")

    if not isinstance(priority, int) or not -PRIORITIES <= priority <= PRIORITIES:
        raise ConfigurationError(
            f"priority of the handler of {queue!r} is {priority!r}; use a whole number, 0 being the usual one."
        )

    def register(function: Callable[[ReceivedMessage], Any]) -> Callable[[ReceivedMessage], Any]:
        if problem := unfit(function):
            raise ConfigurationError(f"The handler of {queue!r}, {function!r}, {problem}.")
        name: str = plain(queue)
        others = [known for known in _handlers.get(name, []) if not _same(known.function, function)]
        if others and not (shared and all(known.shared for known in others)):
            names = ", ".join(known.name for known in others)
            raise ConfigurationError(
                f"Queue {queue!r} already has a handler, {names}; if each message may go to any of them, give each"
                " of them shared=True."
            )
        handler = Handler(
            queue=name,
            function=function,
            credit=credit,
            time_limit_seconds=time_limit_seconds,
            transactional=transactional,
            priority=priority,
            shared=shared,
        )
        _handlers[name] = [*others, handler]
        return function

    return register


def check_transactions(handlers: Iterable[Handler], alias: str) -> None:
    """Raise ConfigurationError for a transactional handler where Django commits no transactions."""
    for handler in handlers:
        if handler.transactional and alias != MEMORY and not connections[alias].settings_dict["AUTOCOMMIT"]:
            raise ConfigurationError(
                f"{handler.name} is transactional, but AUTOCOMMIT is False in DATABASES[{alias!r}], and Django"
                " would not commit its transaction; leave AUTOCOMMIT out."
            )
        if handler.transactional and alias == MEMORY:
            raise ConfigurationError(
                f"{handler.name} is transactional, but its queue is in memory, where there are no transactions;"
                " use a database."
            )


def _same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """A module that is imported twice registers the same function again."""
    return known is function or (_place_of(known) == _place_of(function) and hasattr(known, "__qualname__"))


def _place_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return where the function stands; a partial or a callable object stands where its class does."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return named.__module__, named.__qualname__


def discover() -> dict[str, list[Handler]]:
    """Import every installed app's ``consumers`` module and return the handlers by queue."""
    autodiscover_modules("consumers")
    return {queue: list(handlers) for queue, handlers in _handlers.items()}


def sole_handlers() -> dict[str, Handler]:
    """Return the handler of each queue, after discovery. Raises ConfigurationError where a queue has several."""
    handlers = discover()
    for queue, (_, *others) in handlers.items():
        if others:
            raise ConfigurationError(
                f"Queue {queue!r} has several handlers, which only mq_worker runs; have Celery's workers run no"
                " handlers, by CELERY_HANDLERS = False in DJANGO_MQ, or leave the queue one handler."
            )
    return {queue: handler for queue, [handler] in handlers.items()}


def handler_of(queue: str) -> Handler:
    """Return the handler of a queue, the first one where it has several. Raises NoHandler."""
    try:
        return _handlers[queue][0]
    except KeyError:
        raise NoHandler(f"No handler is registered for queue {queue!r}; decorate one with @consumer.") from None


def forget(queue: str) -> None:
    """Take the handlers of a queue back; for tests."""
    _handlers.pop(queue, None)
