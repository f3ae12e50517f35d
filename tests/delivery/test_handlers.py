"""The registry: one handler a queue, found in every app's consumers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync

from django_mq.api import consumer
from django_mq.delivery.consumer.handlers import discover, forget, handler_of, overlaps
from django_mq.engine.decisions.retries import Retries
from django_mq.errors import ConfigurationError, MalformedSelector, NoHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    """The registry belongs to the process."""
    yield
    for queue in ("handled-here", "plain", "own"):
        forget(queue)


def test_a_decorated_function_handles_its_queue_and_stays_callable() -> None:
    @consumer("handled-here", credit=3, time_limit_seconds=2.5)
    def handle(message: Any) -> str:
        return f"got {message}"

    handler = handler_of("handled-here")
    assert (handler.credit, handler.time_limit_seconds, handler.function) == (3, 2.5, handle.function)
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


@pytest.mark.parametrize("name", ["time_limit_seconds", "soft_time_limit_seconds"])
@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), True, "60"])
def test_a_time_limit_that_is_none_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"of 'handled-here' .*: {name} is .*more than 0"):
        consumer("handled-here", **{name: limit})


@pytest.mark.parametrize("soft", [5, 6])
def test_a_soft_time_limit_that_is_not_the_shorter_one_is_refused(soft: float) -> None:
    with pytest.raises(ConfigurationError, match=f"is {soft}, and time_limit_seconds is 5"):
        consumer("handled-here", time_limit_seconds=5, soft_time_limit_seconds=soft)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bulk": 0}, "bulk of the handler of 'handled-here' is 0; use a number of messages, 1 to 10000"),
        ({"bulk": -1}, "bulk of the handler"),
        ({"bulk": True}, "bulk of the handler"),
        ({"bulk": 2.5}, "bulk of the handler"),
        ({"bulk": 10_001}, "bulk of the handler"),
        ({"bulk": 100, "credit": 99}, "has credit for 99 messages, and bulk=100"),
        ({"bulk": 2, "bulk_seconds": -0.1}, "bulk_seconds of the handler of 'handled-here' is -0.1; use seconds"),
        ({"bulk": 2, "bulk_seconds": float("nan")}, "bulk_seconds"),
        ({"bulk": 2, "bulk_seconds": "1"}, "bulk_seconds"),
        ({"bulk_seconds": 1}, "has bulk_seconds, but no bulk"),
    ],
    ids=str,
)
def test_a_bulk_that_cannot_be_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        consumer("handled-here", **options)


def test_the_credit_grows_with_the_bulk(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "CREDIT_BYTES": 1000}
    consumer("handled-here", bulk=500)(print)
    handler = handler_of("handled-here")

    assert (handler.credit_with(4), handler.bytes_with(None), handler.bytes_with(10)) == (1000, 50_000, 500)
    assert (replace(handler, bulk=5).credit_with(4), replace(handler, bulk=5).bytes_with(None)) == (20, 1000)
    assert replace(handler, credit_bytes=7).bytes_with(None) == 7


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


class WithAGenerator:
    """Can be called; the call returns a generator."""

    def __call__(self, _: Any) -> Iterator[None]:
        """Return a generator."""
        yield

    async def method(self, _: Any) -> Any:
        """Return an asynchronous generator."""
        yield


@pytest.mark.parametrize(
    "function",
    [
        a_generator,
        an_async_generator,
        partial(partial(a_generator)),
        WithAGenerator(),
        partial(WithAGenerator()),
        WithAGenerator().method,
    ],
)
def test_a_function_whose_call_runs_nothing_is_refused_as_a_handler(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'handled-here'.* is (a generator|an asynchronous)"):
        consumer("handled-here")(function)

    with pytest.raises(NoHandler):
        handler_of("handled-here")


@pytest.mark.parametrize(
    "function", [lambda: None, lambda one, two: None, lambda *, message: None, partial(lambda one: None, 1)]
)
def test_a_function_that_cannot_be_called_with_one_message_is_refused_as_a_handler(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="one positional argument"):
        consumer("handled-here")(function)


def test_the_error_about_a_handler_says_in_which_module_it_is() -> None:
    with pytest.raises(ConfigurationError, match=rf"^The handler of 'handled-here', {__name__}.a_generator, is"):
        consumer("handled-here")(a_generator)


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


def test_a_queue_may_have_handlers_with_different_selectors() -> None:
    consumer("handled-here", selector=" region = 'eu' ")(print)
    consumer("handled-here", selector="region = 'us'")(print)
    consumer("handled-here")(repr)

    selectors = [handler.selector for handler in discover()["handled-here"]]

    assert selectors == ["region = 'eu'", "region = 'us'", ""]


def test_a_type_is_a_selector_and_a_selector_may_narrow_it() -> None:
    consumer("handled-here", type="it's.v2")(print)
    consumer("handled-here", type="order.v2", selector="a = 1 OR b = 2")(print)
    consumer("handled-here")(repr)

    assert [(each.type, each.selector) for each in discover()["handled-here"]] == [
        ("it's.v2", "JMSType = 'it''s.v2'"),
        ("order.v2", "JMSType = 'order.v2' AND (a = 1 OR b = 2)"),
        ("", ""),
    ]
    with pytest.raises(ConfigurationError, match=r"already has a handler for JMSType = 'it''s\.v2'"):
        consumer("handled-here", type="it's.v2")(repr)


@pytest.mark.parametrize("kind", ["x" * 256, "\x00", 7])
def test_a_type_that_no_message_can_have_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"The handler of 'handled-here' has a wrong type\. type "):
        consumer("handled-here", type=kind)


def test_two_handlers_with_one_selector_are_refused_unless_they_share() -> None:
    consumer("handled-here", selector="a = 1")(print)

    with pytest.raises(ConfigurationError, match=r"already has a handler for a = 1, builtins\.print"):
        consumer("handled-here", selector="a = 1")(repr)


def test_a_selector_that_cannot_be_parsed_says_where_and_what_was_expected() -> None:
    with pytest.raises(
        MalformedSelector, match=r"handler of 'handled-here' is wrong\. Expected a value.* 4"
    ) as raised:
        consumer("handled-here", selector="a = AND b")(print)

    assert raised.value.position == 4


@pytest.mark.parametrize(
    "selector", ["a = '" + "x" * 100_000 + "'", "(" * 10_000 + "a = 1" + ")" * 10_000, "a = '\x00'", 7]
)
def test_a_selector_that_cannot_be_stored_is_refused(selector: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"text of at most 1000 characters|no database can store it"):
        consumer("handled-here", selector=selector)(print)


def test_a_selector_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(MalformedSelector, match="Nested more than 50 deep"):
        consumer("handled-here", selector="(" * 400 + "a = 1" + ")" * 400)(print)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("a = 1", "a < 5", True),
        ("a = 1 AND b = 2", "b = 2", True),
        ("name LIKE 'x%'", "name <> 'y'", True),
        ("a = 1", "a = 2", False),
        ("a = 1", "a > 5", False),
        ("urgent", "NOT urgent", False),
    ],
)
def test_an_overlap_of_selectors_is_found(one: str, other: str, overlap: bool) -> None:
    consumer("handled-here", selector=one)(print)
    consumer("handled-here", selector=other)(repr)

    found = [(first.selector, second.selector) for first, second, _ in overlaps()]

    assert found == ([(one, other)] if overlap else [])


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"max_attempts": -1}, "The handler of 'orders' cannot have these retries: max_attempts is -1; use 0 to"),
        ({"backoff": "fibonacci"}, "backoff is 'fibonacci'"),
        ({"retry_on": (str,)}, "retry_on has <class 'str'>"),
        ({"retries": 3}, "has no option 'retries'"),
    ],
    ids=str,
)
def test_retries_that_cannot_be_are_refused_where_the_handler_is_declared(own: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        consumer("orders", **own)


def test_a_handler_without_rules_of_its_own_has_none() -> None:
    def handle(message: Any) -> None:
        """Do nothing."""

    consumer("plain")(handle)
    consumer("own", max_attempts=3, retry_on=[])(handle)

    assert [handler_of(name).retries for name in ("plain", "own")] == [None, Retries(max_attempts=3, retry_on=[])]
