"""The registry: one handler a queue, found in every app's consumers."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_mq.api import consumer
from django_mq.delivery.consumer.handlers import discover, forget, handler_of, sole_handlers
from django_mq.errors import ConfigurationError, NoHandler

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    """The registry belongs to the process."""
    yield
    forget("handled-here")


def test_a_decorated_function_handles_its_queue_and_stays_callable() -> None:
    @consumer("handled-here", credit=3, time_limit_seconds=2.5)
    def handle(message: Any) -> str:
        return f"got {message}"

    handler = handler_of("handled-here")
    assert (handler.credit, handler.time_limit_seconds, handler.function) == (3, 2.5, handle)
    assert handle("it") == "got it"
    assert handler.name.endswith(
        "test_handlers.test_a_decorated_function_handles_its_queue_and_stays_callable.<locals>.handle"
    )


@pytest.mark.parametrize(("threads", "credit"), [(1, 20), (4, 20), (5, 20), (6, 24), (64, 256)])
def test_without_a_credit_a_handler_holds_four_messages_for_each_thread_and_at_least_20(
    threads: int, credit: int
) -> None:
    consumer("handled-here")(print)

    assert handler_of("handled-here").credit_with(threads) == credit


def test_a_credit_that_is_named_does_not_follow_the_threads() -> None:
    consumer("handled-here", credit=3)(print)

    assert handler_of("handled-here").credit_with(64) == 3


def test_a_second_handler_of_a_queue_is_refused_and_the_first_is_named() -> None:
    consumer("handled-here")(print)

    with pytest.raises(ConfigurationError, match=r"'handled-here' already has a handler, builtins\.print"):
        consumer("handled-here")(repr)


def test_a_module_imported_twice_registers_the_same_function_again() -> None:
    consumer("handled-here")(print)

    consumer("handled-here", credit=5)(print)

    assert handler_of("handled-here").credit == 5


def test_an_object_that_can_be_called_may_be_a_handler() -> None:
    consumer("handled-here")(partial(print, "got"))

    assert handler_of("handled-here").name == "functools.partial"


def test_two_objects_of_a_class_are_two_handlers() -> None:
    consumer("handled-here")(partial(print, "got"))

    with pytest.raises(ConfigurationError, match="already has a handler"):
        consumer("handled-here")(partial(print, "lost"))


@pytest.mark.parametrize("credit", [0, -1])
def test_a_consumer_without_credit_is_refused(credit: int) -> None:
    with pytest.raises(ConfigurationError, match="use 1 or more"):
        consumer("handled-here", credit=credit)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_limit_that_is_over_at_once_is_refused(limit: float) -> None:
    with pytest.raises(ConfigurationError, match="time_limit_seconds"):
        consumer("handled-here", time_limit_seconds=limit)


@pytest.mark.parametrize("queue", ["", "q" * 201, print])
def test_a_queue_without_a_proper_name_is_refused(queue: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        consumer(queue)


def test_a_queue_without_a_handler_is_said_to_have_none() -> None:
    with pytest.raises(NoHandler, match="'nowhere'; decorate one with @consumer"):
        handler_of("nowhere")


def test_discovery_returns_what_is_registered() -> None:
    consumer("handled-here")(print)

    [handler] = discover()["handled-here"]
    assert handler.function is print


def test_handlers_that_share_a_queue_are_found_in_order() -> None:
    consumer("handled-here", shared=True, credit=3)(print)
    consumer("handled-here", shared=True, priority=5)(repr)

    assert [handler.function for handler in discover()["handled-here"]] == [print, repr]


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_a_queue_is_shared_only_if_each_handler_says_so(first: bool, second: bool) -> None:
    consumer("handled-here", shared=first)(print)

    with pytest.raises(ConfigurationError, match="give each of them shared=True"):
        consumer("handled-here", shared=second)(repr)


def test_a_worker_that_runs_one_handler_of_a_queue_refuses_several() -> None:
    consumer("handled-here", shared=True)(print)
    assert sole_handlers()["handled-here"].function is print
    consumer("handled-here", shared=True)(repr)

    with pytest.raises(ConfigurationError, match="'handled-here' has several handlers, which only mq_worker runs"):
        sole_handlers()


@pytest.mark.parametrize("priority", ["high", 1.5, 2**31, None])
def test_a_priority_that_is_no_whole_number_is_refused(priority: Any) -> None:
    with pytest.raises(ConfigurationError, match="whole number"):
        consumer("handled-here", priority=priority)


async def a_coroutine(_: Any) -> None:
    """Return an awaitable."""


def a_generator(_: Any) -> Iterator[None]:
    """Return a generator."""
    yield


async def an_async_generator(_: Any) -> Any:
    """Return an asynchronous generator."""
    yield


class WithACoroutine:
    """Can be called; the call returns an awaitable."""

    async def __call__(self, _: Any) -> None:
        """Return an awaitable."""

    async def method(self, _: Any) -> None:
        """Return an awaitable."""


@pytest.mark.parametrize(
    "function",
    [
        a_coroutine,
        a_generator,
        an_async_generator,
        partial(a_coroutine),
        partial(partial(a_generator)),
        WithACoroutine(),
        partial(WithACoroutine()),
        WithACoroutine().method,
        sync_to_async(print),
    ],
)
def test_a_function_whose_call_runs_nothing_is_refused_as_a_handler(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'handled-here'.* is (a coroutine|a generator|an asynchronous)"):
        consumer("handled-here")(function)

    with pytest.raises(NoHandler):
        handler_of("handled-here")


@pytest.mark.parametrize(
    "function", [lambda: None, lambda one, two: None, lambda *, message: None, partial(lambda one: None, 1)]
)
def test_a_function_that_cannot_be_called_with_one_message_is_refused_as_a_handler(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="one positional argument"):
        consumer("handled-here")(function)


@pytest.mark.parametrize("function", [None, "handle", 3])
def test_what_cannot_be_called_is_refused_as_a_handler(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be called"):
        consumer("handled-here")(function)


@wraps(lambda message, connection: None)
def a_wrapper(message: Any) -> Any:
    """Take one argument where the wrapped function takes two."""
    return message


@pytest.mark.parametrize("function", [async_to_sync(a_coroutine), a_wrapper, dict, print, "{}".format])
def test_a_function_that_runs_when_it_is_called_with_one_message_may_be_a_handler(function: Any) -> None:
    consumer("handled-here")(function)

    assert handler_of("handled-here").function is function
