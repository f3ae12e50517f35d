"""Middleware of both kinds is around functions and coroutine functions; a wrong one is refused before it runs."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.exceptions import MiddlewareNotUsed

from django_mq import conf
from django_mq.api import publish
from django_mq.checks import check_settings
from django_mq.delivery.consumer.worker import Worker
from django_mq.errors import MiddlewareMisused, UnusableMiddleware
from django_mq.seams.middleware import asurrounded, chains_of, surrounded

if TYPE_CHECKING:
    from pytest_django import Settings

HERE = "tests.seams.test_chains"
path: ContextVar[str] = ContextVar("path", default="")


class Plain:
    """Notes in a context variable that it is around the handler."""

    def process(self, attempt: Any, proceed: Any) -> Any:
        token = path.set(f"{path.get()} plain")
        try:
            return f"plain({proceed(attempt)})"
        finally:
            path.reset(token)


class Asynchronous:
    async def aprocess(self, attempt: Any, proceed: Any) -> Any:
        token = path.set(f"{path.get()} async")
        try:
            await asyncio.sleep(0)
            return f"async({await proceed()})"
        finally:
            path.reset(token)


class Both(Plain, Asynchronous):
    """Each of its methods runs where it is native."""


def run(middleware: tuple[Any, ...], handler: Any, *, is_async: bool) -> Any:
    """Run a handler of either kind in its chain."""
    chains = chains_of(middleware)
    if not is_async:
        return surrounded(chains.attempts, "message", handler)

    async def ahandler(message: str) -> Any:
        await asyncio.sleep(0)
        return handler(message)

    return asyncio.run(asurrounded(chains.async_attempts, "message", ahandler))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [(), (Plain,), (Asynchronous,), (Both,), (Plain, Asynchronous, Both), (Asynchronous, Plain, Plain)],
)
def test_middleware_of_each_kind_is_around_handlers_of_each_kind(kinds: tuple[Any, ...], is_async: bool) -> None:
    names = {Plain: "plain", Asynchronous: "async", Both: "async" if is_async else "plain"}
    seen: dict[str, Any] = {}

    def handler(message: str) -> str:
        seen.update(path=path.get().split(), thread=threading.get_ident(), message=message)
        return "done"

    result = run(tuple(kind() for kind in kinds), handler, is_async=is_async)

    expected = "done"
    for kind in reversed(kinds):
        expected = f"{names[kind]}({expected})"
    assert result == expected
    # Connections and transactions belong to a thread.
    assert seen == {"path": [names[kind] for kind in kinds], "thread": threading.get_ident(), "message": "message"}
    assert path.get() == ""


def test_queries_of_a_coroutine_run_in_the_thread_of_its_synchronous_middleware() -> None:
    """What the middleware sets on a connection is there for them, and for no other coroutine."""
    threads: list[set[int]] = []

    def process(attempt: Any, proceed: Any) -> Any:
        threads.append({threading.get_ident()})
        return proceed()

    async def handler(number: int) -> None:
        await both_began.wait()
        threads[number].add(await sync_to_async(threading.get_ident)())

    async def attempt(number: int) -> None:
        async with ThreadSensitiveContext():
            chain = chains_of([SimpleNamespace(process=process)]).async_attempts
            await asurrounded(chain, number, handler)

    both_began = asyncio.Event()

    async def main() -> None:
        tasks = []
        for number in range(2):
            tasks.append(asyncio.create_task(attempt(number)))
            while len(threads) <= number:
                await asyncio.sleep(0)
        both_began.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())

    assert [len(seen) for seen in threads] == [1, 1]
    assert threads[0] != threads[1]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", [Plain, Asynchronous, Both])
def test_an_error_of_the_handler_passes_the_middleware(kind: Any, is_async: bool) -> None:
    with pytest.raises(ZeroDivisionError):
        run((kind(),), lambda _: 1 / 0, is_async=is_async)


def twice(attempt: Any, proceed: Any) -> Any:
    proceed()
    return proceed()


def never(attempt: Any, proceed: Any) -> None:
    """Return without a word."""


def again(attempt: Any, proceed: Any) -> Any:
    try:
        return proceed()
    except KeyError:
        return proceed()


async def atwice(attempt: Any, proceed: Any) -> Any:
    await proceed()
    return await proceed()


async def anever(attempt: Any, proceed: Any) -> None:
    """Return without a word."""


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("middleware", "runs", "sentence"),
    [
        (SimpleNamespace(process=twice), 1, "twice has called proceed.. again after it had returned"),
        (SimpleNamespace(aprocess=atwice), 1, "atwice has called proceed.. again"),
        (SimpleNamespace(process=never), 0, "never has returned without proceed.., so nothing was done"),
        (SimpleNamespace(aprocess=anever), 0, "anever has returned without proceed"),
    ],
)
def test_a_middleware_proceeds_once(middleware: Any, runs: int, sentence: str, is_async: bool) -> None:
    ran: list[str] = []

    with pytest.raises(MiddlewareMisused, match=sentence):
        run((middleware,), ran.append, is_async=is_async)

    assert len(ran) == runs


async def at_once(attempt: Any, proceed: Any) -> Any:
    await asyncio.gather(proceed(), proceed())


async def early(attempt: Any, proceed: Any) -> Any:
    task = asyncio.ensure_future(proceed())
    await asyncio.sleep(0)  # it begins
    return task


@pytest.mark.parametrize(
    ("aprocess", "sentence"),
    [
        (at_once, "at_once has called proceed.. again before it had returned"),
        (early, "early has returned before proceed.. has"),
    ],
)
def test_a_middleware_waits_for_what_follows(aprocess: Any, sentence: str) -> None:
    runs: list[Any] = []

    async def handle(message: Any) -> None:
        runs.append(message)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    chain = chains_of([SimpleNamespace(aprocess=aprocess)]).async_attempts
    with pytest.raises(MiddlewareMisused, match=sentence):
        asyncio.run(asurrounded(chain, 7, handle))

    assert runs == [7]


def test_a_middleware_may_proceed_again_after_an_error() -> None:
    results: list[Any] = [KeyError(), "done"]

    def handler(_: str) -> Any:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    assert run((SimpleNamespace(process=again),), handler, is_async=False) == "done"


class Unused:
    def __init__(self) -> None:
        raise MiddlewareNotUsed


class Failing:
    def __init__(self) -> None:
        raise ZeroDivisionError("no keys")


class Nothing:
    """Has no method of a middleware."""


class Misnamed:
    async def process(self, attempt: Any, proceed: Any) -> Any:
        """Never awaited."""


class Publishing:
    async def publish(self, publication: Any, proceed: Any) -> Any:
        """Never awaited."""


class Blocking:
    def aprocess(self, attempt: Any, proceed: Any) -> Any:
        """Is no coroutine function."""


class Short:
    def process(self, attempt: Any) -> Any:
        """Is given no proceed."""


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        ("shop.middleware.Tenant", "E003", "MIDDLEWARE is 'shop.middleware.Tenant'; give a list of dotted paths"),
        ([3], "E003", "MIDDLEWARE is .3,.; give a list"),
        (["nowhere"], "E014", "'nowhere', which cannot be imported: nowhere doesn't look like a module path"),
        (["nowhere.Tenant"], "E014", "which cannot be imported: No module named 'nowhere'"),
        (["tests.seams.broken.Tenant"], "E014", "which cannot be imported: division by zero"),
        ([f"{HERE}.HERE"], "E014", f"which is '{HERE}'; give the path of a class"),
        ([f"{HERE}.Failing"], "E014", "which cannot be called without arguments: ZeroDivisionError: no keys"),
        ([f"{HERE}.never"], "E014", "which cannot be called without arguments: TypeError"),
        (
            [f"{HERE}.Nothing"],
            "E014",
            "which has none of the methods publish, process, aprocess, group",
        ),
        ([f"{HERE}.Misnamed"], "E014", "process that is a coroutine function.*; name it aprocess"),
        ([f"{HERE}.Publishing"], "E014", "has a publish that is a coroutine function, which does not run"),
        ([f"{HERE}.Blocking"], "E014", "has an aprocess that is no coroutine function"),
        ([f"{HERE}.Short"], "E014", "has a process that cannot be called with two arguments"),
    ],
)
def test_a_wrong_middleware_is_reported_and_nothing_works(
    settings: Settings, given: Any, code: str, sentence: str
) -> None:
    settings.DJANGO_MQ = {"MIDDLEWARE": given, "AUTO_DECLARE": True}

    (message,) = check_settings()
    assert message.id == f"django_mq.{code}"
    if code == "E014":
        with pytest.raises(UnusableMiddleware, match=sentence):
            publish("orders", 1)
        with pytest.raises(UnusableMiddleware, match=sentence):
            Worker([], threads=1)


def test_the_setting_is_outside_of_extensions_and_an_unused_one_is_left_out(settings: Settings) -> None:
    settings.DJANGO_MQ = {"MIDDLEWARE": [f"{HERE}.Plain", f"{HERE}.Unused", f"{HERE}.Both"]}

    assert check_settings() == []
    owners = [type(getattr(method, "__self__", None)) for method in conf.middleware().attempts]
    assert owners == [Plain, Both]
