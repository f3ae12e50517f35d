"""Handlers: the users' functions that consume queues, and the messages that they are given.

A worker without Celery neither runs nor settles the messages of Celery tasks.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from itertools import chain, combinations, repeat
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction
from django.db import connections
from django.utils.module_loading import autodiscover_modules

from django_mq import conf
from django_mq.delivery.codecs import decode_headers
from django_mq.delivery.consumer.handler_function import HandlerFunction
from django_mq.delivery.queues import allow
from django_mq.delivery.validation import check_selector, plain, text
from django_mq.engine.decisions.bulk import BULK_SECONDS, MOST_OF_BULK, MOST_SECONDS, is_wait
from django_mq.engine.decisions.claim import is_byte_credit
from django_mq.engine.decisions.interruption import problems_of_limits
from django_mq.engine.decisions.retries import OF_THE_QUEUE, RELEASE_SECONDS, Retries
from django_mq.engine.decisions.selection import common_example, selector_for
from django_mq.engine.options import is_name
from django_mq.engine.selector import Selector
from django_mq.errors import (
    ConfigurationError,
    CorruptMessage,
    HandlerNotRun,
    InvalidMessage,
    MalformedSelector,
    NoHandler,
    shown,
)
from django_mq.seams.middleware import GENERATORS
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.delivery.consumer.handler_function import Bulk, HandlerDecorator, P, R
    from django_mq.engine.decisions.retries import BackoffFunction, BackoffKind, Errors
    from django_mq.seams.arguments import Arguments
    from django_mq.stores.records import Browsed, Claimed


#: The least credit of a handler that names none, and the messages for each thread of its worker if that is more.
LEAST_CREDIT = 20
CREDIT_PER_THREAD = 4
#: What follows the name of a queue in that of the queue for its deaths.
ON_DEAD_SUFFIX = ".on_dead"
#: Priorities of consumers reach so far up and down: what fits into four bytes.
PRIORITIES = 2**31 - 1


class Way(Enum):
    """How a worker process runs a handler. It has one worker for each way that its handlers need."""

    THREADS = "threads"
    #: Many messages in one call.
    BULK = "bulk"
    #: A coroutine function, which runs beside hundreds of others.
    EVENT_LOOP = "event loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A registered function and the options of its decorator."""

    queue: str
    function: Callable[..., Any]
    #: How many messages a worker holds for it; 0 for a number that follows the worker's threads.
    credit: int
    #: How many bytes of bodies a worker holds for it; None for no limit.
    credit_bytes: int | None = None
    time_limit_seconds: float | None
    soft_time_limit_seconds: float | None = None
    transactional: bool = False
    #: How many messages it gets in one call, as a list; 0 for one message, which is no list.
    bulk: int = 0
    #: How long the first message of a list waits for others.
    bulk_seconds: float = BULK_SECONDS
    priority: int = 0
    #: Whether other handlers of the queue may take the same messages.
    shared: bool = False
    #: The only type of messages that it takes, and of those that it publishes; blank for all types.
    type: str = ""
    #: Which messages it takes, blank for those that no other handler of the queue takes. It includes the type.
    selector: str = ""
    #: How a worker process runs it.
    way: Way = Way.THREADS
    #: What it says of its failures; None if all rules are those of the queue.
    retries: Retries | None = field(default=None, hash=False)
    #: Whether a function is called with the messages that it has failed and that die.
    on_dead: bool = False
    #: What the function is called with; None for the message.
    arguments: Arguments | None = None
    #: Returns the handler with the options for one message, whose body is what the function returns; None if they
    #: are the same for all messages. Never raises.
    for_message: Callable[[Handler, Callable[[], Any]], Handler] | None = None
    #: The values of options that extensions declare.
    added: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def settles_itself(self) -> str:
        """What says that its own transactions accept its messages: "transactional"; blank if they do not."""
        return "transactional" if self.transactional else ""

    @property
    def name(self) -> str:
        """The function's dotted name, for the operator."""
        return ".".join(_place_of(self.function))

    def call(self, message: ReceivedMessage) -> Any:
        """Call the function for a message. Raises CorruptMessage if the body is not what the function asks for."""
        if self.arguments is None:
            return self.function(message)
        return self.function(*self.arguments(message))

    def over(self, body: Callable[[], Any]) -> Handler:
        """Return the handler with the options for a message with this body."""
        return self if self.for_message is None else self.for_message(self, body)

    @property
    def label(self) -> str:
        """The name with the messages of a call, for the list of consumers."""
        return f"{self.name} (up to {self.bulk} at a time)" if self.bulk else self.name

    def credit_with(self, threads: int) -> int:
        """Return the credit in a worker with this number of threads; one bulk waits while another one runs."""
        return self.credit or max(LEAST_CREDIT, 2 * self.bulk or CREDIT_PER_THREAD * threads)

    def bytes_with(self, given: int | None) -> int | None:
        """Return the credit of bytes in a worker that gives so many to handlers that name none."""
        each = given or conf.load().CREDIT_BYTES
        # As much for a message as where the credit is the usual one.
        return self.credit_bytes or (each and each * max(1, 2 * self.bulk // LEAST_CREDIT))


_handlers: dict[str, list[Handler]] = {}


def consumer(
    queue: str,
    *,
    credit: int | None = None,
    credit_bytes: int | None = None,
    time_limit_seconds: float | None = None,
    soft_time_limit_seconds: float | None = None,
    transactional: bool = False,
    bulk: Bulk = None,  # type: ignore[assignment]  # a default of a variable of types
    bulk_seconds: float | None = None,
    priority: int = 0,
    shared: bool = False,
    type: str = "",  # noqa: A002 - as publish names it
    selector: str = "",
    max_attempts: int | None = None,
    backoff: BackoffKind | BackoffFunction | None = None,
    backoff_seconds: float | None = None,
    backoff_multiplier: float | None = None,
    backoff_cap_seconds: float | None = None,
    backoff_jitter: float | None = None,
    retry_on: Errors = (),
    reject_on: Errors = (),
    release_on: Errors = (),
    release_seconds: float = RELEASE_SECONDS,
    retry_within_seconds: float | None = None,
    on_dead: Callable[..., Any] | None = None,
    **added: Any,
) -> HandlerDecorator[Bulk]:
    """Make a function a handler of a queue; put it into an app's ``consumers.py``.

    It is called with one message, in some thread. If its parameter has the annotation of another type than that of
    the message, it is called with the body as an object of this type.

    Returning accepts the message. Raising counts a failed attempt, which is repeated after the queue's backoff up
    to its maximum; ``errors.Reject``, ``Release``, ``Decline`` and ``Retry`` choose an outcome. ``credit`` is how
    many messages one worker holds for the handler at a time: by default four for each of the worker's threads, and
    at least 20. ``credit_bytes`` is how many bytes their bodies have together; a message that is larger by itself
    is held alone. A call that exceeds ``time_limit_seconds`` counts as failed; its thread is given up, since
    Python cannot stop it. After ``soft_time_limit_seconds``, ``message.cancelled`` is true and
    ``message.raise_if_cancelled()`` raises SoftTimeLimitExceeded, so that the handler can end by itself.

    With ``transactional``, the call runs in a transaction on the queues' database, which also accepts the
    message: the handler's writes there and the acknowledgement commit together or not at all, so each effect
    happens exactly once. If another worker has the message by then, everything is rolled back.

    With ``bulk``, the handler is called with a list of messages, as many as that at most. The first one waits up
    to ``bulk_seconds``, by default half a second, for others. Returning accepts all of them. A list of as many
    outcomes, each None or an error, decides on each message. If the handler raises, the messages are given to it
    again in halves, until the one at fault stands alone: only that one is charged an attempt. Without
    ``transactional``, this repeats the effects of the calls that failed.

    Workers in which the handler has a higher ``priority`` are served first, as long as they have credit.

    With a ``selector``, the handler gets only messages that the selector matches; the others stay in the queue
    for other workers. A queue may have several handlers with different selectors: each message goes to the first
    one, in the order of declaration, whose selector matches. A handler without a selector gets the rest. With a
    ``type``, the selector matches messages that were published with this type.

    Otherwise a queue has one handler, unless each of its handlers is ``shared``: then each message goes to one of
    them, by priority, and to those of equal priority in turn.

    ``max_attempts`` and the options of ``backoff`` replace those of the queue for the failures of this handler.
    ``backoff`` is "constant", "linear", "exponential", or a function of an attempt's number and its error, which
    returns the delay. An error whose class is in ``reject_on`` makes the message a dead letter at once; one in
    ``release_on`` gives the message back uncounted, for ``release_seconds``. With ``retry_on``, all other errors
    are rejected. Of several classes that match, the most specific one counts. No retry begins later than
    ``retry_within_seconds`` after the publication, or after the time for which the message was published.

    ``on_dead`` is called with each message that the handler has failed and that becomes a dead letter: some worker
    runs it as the handler of the queue with the suffix ``.on_dead``, at least once. The ``correlation_id`` is the
    id of the dead message.

    Extensions may declare further options.

    An ``async def`` runs on the event loop of its worker process, beside hundreds of others; there, exceeding
    ``time_limit_seconds`` cancels it. It cannot be ``transactional``.

    Raises ConfigurationError for impossible options, for a second handler with the same selector, or none, that is
    not shared, and for a function that does not run when it is called with one message, such as a generator.
    Raises MalformedSelector for a selector that cannot be parsed.
    """
    _check_options(queue, credit, credit_bytes, priority)
    _check_limits(queue, time_limit_seconds, soft_time_limit_seconds)
    _check_bulk(queue, bulk, bulk_seconds, credit)
    _check_added(queue, added)
    retries = Retries(
        max_attempts=max_attempts,
        backoff=backoff,
        backoff_seconds=backoff_seconds,
        backoff_multiplier=backoff_multiplier,
        backoff_cap_seconds=backoff_cap_seconds,
        backoff_jitter=backoff_jitter,
        retry_on=retry_on,
        reject_on=reject_on,
        release_on=release_on,
        release_seconds=release_seconds,
        retry_within_seconds=retry_within_seconds,
    )
    _check_retries(queue, retries)
    kind, condition = _type(queue, type), _condition(queue, selector)
    if kind:
        condition = _condition(queue, selector_for(kind, condition))

    def register(function: Callable[P, R], /) -> HandlerFunction[P, R]:
        if isinstance(function, HandlerFunction):  # of another queue
            function = function.function
        handler = Handler(
            queue=plain(queue),
            function=function,
            credit=credit or 0,
            credit_bytes=credit_bytes,
            time_limit_seconds=time_limit_seconds,
            soft_time_limit_seconds=soft_time_limit_seconds,
            transactional=transactional,
            bulk=bulk or 0,
            bulk_seconds=BULK_SECONDS if bulk_seconds is None else bulk_seconds,
            priority=priority,
            shared=shared,
            type=kind,
            selector=condition,
            way=_way(queue, function, transactional=transactional, many=bulk is not None),
            retries=None if retries == OF_THE_QUEUE else retries,
            arguments=_arguments(queue, function, many=bulk is not None),
            on_dead=on_dead is not None,
            added=added,
        )
        _add_with(_changed(handler), on_dead)
        return HandlerFunction(function, handler)

    decorator: Any = register
    return decorator  # type: ignore[no-any-return]  # its type is in HandlerDecorator


def notices_of(queue: str) -> str:
    """Return the queue whose handler is called when a message dies."""
    return f"{queue}{ON_DEAD_SUFFIX}"


def _add_with(handler: Handler, function: Callable[..., Any] | None) -> None:
    """Register a handler, and the function that is called when a message dies. Raises ConfigurationError."""
    if function is not None:
        _add_on_dead(handler, function)
    add(handler)


def _add_on_dead(handler: Handler, function: Callable[..., Any]) -> None:
    queue = notices_of(handler.queue)
    if not callable(function):
        raise ConfigurationError(
            f"on_dead of the handler of {handler.queue!r} is {shown(function)}; give a function."
        )
    consumer(queue, selector=handler.selector, shared=handler.shared)(function)
    allow([queue])


def add(handler: Handler) -> None:
    """Register a handler in place of the same one. Raises ConfigurationError if another takes its messages."""
    queue, condition = handler.queue, handler.selector
    others = [
        known
        for known in _handlers.get(queue, [])
        if known.selector != condition or not _same(known.function, handler.function)
    ]
    rivals = [known for known in others if known.selector == condition]
    if rivals and not (handler.shared and all(known.shared for known in rivals)):
        names = ", ".join(known.name for known in rivals)
        raise ConfigurationError(
            f"Queue {queue!r} already has a handler{_for(condition)}, {names}; if each message may go to any"
            " of them, give each of them shared=True."
        )
    _handlers[queue] = [*others, handler]


def _changed(handler: Handler) -> Handler:
    """Return the handler as extensions change it. Raises ConfigurationError."""
    for change in conf.extensions().handlers if handler.added else ():
        try:
            handler = change(handler)
        except TypeError as error:
            raise _refusal(handler.queue, handler.function, str(error)) from None
    return handler


def _arguments(queue: str, function: Any, *, many: bool) -> Arguments | None:
    """Return what a function is called with, None for the message. Raises ConfigurationError if it cannot be."""
    try:
        found = (ask(function, many) for ask in conf.extensions().arguments)
        arguments = next((each for each in found if each is not None), None)
    except TypeError as error:
        raise _refusal(queue, function, str(error)) from None
    if problem := unfit(function, 1 if arguments is None else arguments.number):
        raise _refusal(queue, function, problem)
    return arguments


def _way(queue: str, function: Any, *, transactional: bool, many: bool) -> Way:
    """Return how a worker runs a function. Raises ConfigurationError for options that a coroutine cannot have."""
    if not is_async(function):
        return Way.BULK if many else Way.THREADS
    if transactional:
        problem = "is a coroutine function and cannot be transactional: Django has no transactions in async code"
        raise _refusal(queue, function, f"{problem}; write a plain function, or leave transactional out")
    if many:
        problem = "is a coroutine function and gets one message in a call, beside many others"
        raise _refusal(queue, function, f"{problem}; write a plain function, or leave bulk out")
    return Way.EVENT_LOOP


def _refusal(queue: str, function: Any, problem: str) -> ConfigurationError:
    named = ".".join(_place_of(function)) if hasattr(function, "__qualname__") else repr(function)
    return ConfigurationError(f"The handler of {queue!r}, {named}, {problem}.")


def _check_options(queue: object, credit: int | None, credit_bytes: int | None, priority: int) -> None:
    """Raise ConfigurationError for options of ``consumer`` that are impossible for any function."""
    if not is_name(queue):
        raise ConfigurationError(f"@consumer wants the name of a queue, as in @consumer('orders'), not {queue!r}.")
    if credit is not None and credit < 1:
        raise ConfigurationError(f"credit of the handler of {queue!r} is {credit}; use 1 or more.")
    if credit_bytes is not None and not is_byte_credit(credit_bytes):
        raise ConfigurationError(
            f"credit_bytes of the handler of {queue!r} is {shown(credit_bytes)}; use a whole number, 1 or more."
        )
    if not isinstance(priority, int) or not -PRIORITIES <= priority <= PRIORITIES:
        raise ConfigurationError(
            f"priority of the handler of {queue!r} is {priority!r}; use a whole number, 0 being the usual one."
        )


def _check_limits(queue: str, time_limit_seconds: object, soft_time_limit_seconds: object) -> None:
    """Raise ConfigurationError for time limits that are impossible."""
    if time_limit_seconds is None and soft_time_limit_seconds is None:
        return
    if (problem := next(problems_of_limits(time_limit_seconds, soft_time_limit_seconds), None)) is not None:
        raise ConfigurationError(f"The handler of {queue!r} cannot have these time limits: {problem}.")


def _check_retries(queue: str, retries: Retries) -> None:
    """Raise ConfigurationError for rules that cannot be."""
    problem = None if retries == OF_THE_QUEUE else next(retries.problems(), None)
    if problem is not None:
        raise ConfigurationError(f"The handler of {queue!r} cannot have these retries: {problem}.")


def _check_bulk(queue: str, bulk: Any, bulk_seconds: Any, credit: int | None) -> None:
    """Raise ConfigurationError for a bulk that is impossible."""
    if bulk is None:
        if bulk_seconds is not None:
            raise ConfigurationError(
                f"The handler of {queue!r} has bulk_seconds, but no bulk; give both, or none."
            )
        return
    if not isinstance(bulk, int) or isinstance(bulk, bool) or not 1 <= bulk <= MOST_OF_BULK:
        raise ConfigurationError(
            f"bulk of the handler of {queue!r} is {shown(bulk)}; use a number of messages, 1 to {MOST_OF_BULK}."
        )
    if credit is not None and credit < bulk:
        raise ConfigurationError(
            f"The handler of {queue!r} has credit for {credit} messages, and bulk={bulk}; give it more credit, or"
            " leave credit out."
        )
    if bulk_seconds is not None and not is_wait(bulk_seconds):
        raise ConfigurationError(
            f"bulk_seconds of the handler of {queue!r} is {shown(bulk_seconds)}; use seconds, 0 to {MOST_SECONDS}."
        )


def _check_added(queue: str, added: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for options that no extension declares, or does not take."""
    known = {option.name: option for option in conf.extensions().handler_options} if added else {}
    for name, value in added.items():
        if name not in known:
            raise ConfigurationError(f"@consumer({queue!r}) has no option {name!r}; correct or remove it.")
        if (fault := known[name].fault(value)) is not None:
            raise ConfigurationError(f"{name} of the handler of {queue!r} is {shown(value)}; {fault}.")


def _type(queue: str, given: Any) -> str:
    """Return the type of a handler's messages. Raises ConfigurationError."""
    try:
        return text(given, "type")
    except InvalidMessage as error:
        raise ConfigurationError(f"The handler of {queue!r} has a wrong type. {error}") from None


def _condition(queue: str, selector: str) -> str:
    """Return the selector of a handler. Raises MalformedSelector and ConfigurationError."""
    if selector == "":
        return selector
    try:
        return check_selector(selector.strip() if isinstance(selector, str) else selector)
    except MalformedSelector as error:
        raise MalformedSelector(
            f"The selector of the handler of {queue!r} is wrong. {error}", position=error.position
        ) from None


def _for(selector: str) -> str:
    return f" for {selector}" if selector else ""


def check_transactions(handlers: Iterable[Handler], alias: str) -> None:
    """Raise ConfigurationError for a handler with transactions where Django commits none."""
    for handler in handlers:
        if not (kind := handler.settles_itself):
            continue
        if alias == MEMORY:
            raise ConfigurationError(
                f"{handler.name} is {kind}, but its queue is in memory, where there are no transactions;"
                " use a database."
            )
        if not connections[alias].settings_dict["AUTOCOMMIT"]:
            raise ConfigurationError(
                f"{handler.name} is {kind}, but AUTOCOMMIT is False in DATABASES[{alias!r}], and Django would"
                " not commit its transactions; leave AUTOCOMMIT out."
            )


def _same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Return whether both are one function: a module that is imported twice registers its handlers again."""
    return known is function or (_place_of(known) == _place_of(function) and hasattr(known, "__qualname__"))


def _place_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the module and name of a function; those of its class for a partial or a callable object."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return named.__module__ or "builtins", named.__qualname__


def discover() -> dict[str, list[Handler]]:
    """Import the ``consumers`` module of every installed app; return the handlers by queue.

    Raises ConfigurationError for a handler whose arguments cannot be made.
    """
    autodiscover_modules("consumers")
    for handler in chain.from_iterable(_handlers.values()):
        try:
            if handler.arguments is not None:
                handler.arguments.check()
        except TypeError as error:
            raise _refusal(handler.queue, handler.function, str(error)) from None
    return {queue: list(handlers) for queue, handlers in _handlers.items()}


def overlaps() -> Iterator[tuple[Handler, Handler, str]]:
    """Yield handlers whose selectors match the same messages, the first one first, each with such a message."""
    for handlers in discover().values():
        selecting = [handler for handler in handlers if handler.selector]
        for first, second in combinations(selecting, 2):
            example = None
            if first.selector != second.selector:
                example = common_example(Selector(first.selector), Selector(second.selector))
            if example is not None:
                named = ", ".join(f"{name} = {value!r}" for name, value in example.items())
                yield first, second, named or "any headers"


def handler_of(queue: str) -> Handler:
    """Return the first handler of a queue. Raises NoHandler."""
    try:
        return _handlers[queue][0]
    except KeyError:
        raise NoHandler(f"No handler is registered for queue {queue!r}; decorate one with @consumer.") from None


def registered(queue: str) -> list[Handler]:
    """Return the handlers of a queue that are known until now, which need not be all."""
    return list(_handlers.get(queue, ()))


def forget(queue: str) -> None:
    """Remove the handlers of a queue; for tests."""
    _handlers.pop(queue, None)


def unfit(function: Any, arguments: int = 1) -> str | None:
    """Return why this cannot be a handler, as the end of a sentence; None if it can."""
    if not callable(function):
        return "cannot be called; decorate a function"
    for is_such, word in GENERATORS:
        if is_such(function) or is_such(_call_of(function)):
            return f"is {word}, which does not run when it is called; write def or async def, without yield"
    if not _takes(function, arguments):
        return (
            "cannot be called with one positional argument, the message or its body; a second one is the message,"
            " if its annotation is ReceivedMessage"
        )
    return None


def is_async(function: Any) -> bool:
    """Whether a call of this returns a coroutine."""
    return iscoroutinefunction(function) or iscoroutinefunction(_call_of(function))


def result_of(result: Any) -> Any:
    """Return what a handler has returned. Raises HandlerNotRun if that is work that is still to be run."""
    if not (inspect.isawaitable(result) or isinstance(result, Generator | AsyncGenerator)):
        return result
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that it was never awaited
    raise HandlerNotRun(
        f"The handler returned a {type(result).__name__}, so its work did not run; run the work in the handler."
    )


def _call_of(function: Any) -> Any:
    """Return the ``__call__`` of a callable object, which may be inside partials."""
    while isinstance(function, partial):
        function = function.func
    return None if isinstance(function, type) else getattr(type(function), "__call__", None)  # noqa: B004 - not whether, but which


def _takes(function: Callable[..., Any], number: int) -> bool:
    try:
        # The arguments of a wrapper count, not those of the wrapped function.
        inspect.signature(function, follow_wrapped=False).bind(*repeat(None, number))
    except ValueError:
        return True  # some built-in callables have no signature
    except TypeError:
        return False
    return True


TASK = "task"
#: The header in which Celery counts the attempts of a task that have failed: each retry is a new message.
RETRIES = "retries"
#: The headers of every task in Celery's second protocol. Other publishers may use one or two of them.
TASK_HEADERS = frozenset({"lang", TASK, RETRIES, "timelimit"})
#: Bounds of the delay with which a worker leaves a task to others: the age of the task.
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


def is_task(headers: Mapping[str, Any]) -> bool:
    """Return whether these are the headers of a Celery task."""
    return headers.keys() >= TASK_HEADERS


def carries_task(claimed: Claimed | Browsed) -> bool:
    """Return whether a message is a Celery task; False if its headers cannot be read."""
    if f'"{TASK}"' not in (claimed.headers or ""):
        return False  # nearly every native message, without decoding its headers
    try:
        return is_task(decode_headers(claimed.headers))
    except CorruptMessage:
        return False


def pause_seconds(claimed: Claimed, now: datetime) -> float:
    """Return for how long to leave a task to other workers: about twice as long each time."""
    age = now - claimed.published_at
    return min(max(age, SHORTEST_PAUSE), LONGEST_PAUSE).total_seconds()
