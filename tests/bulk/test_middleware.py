"""The middleware is around a call of a handler of many, whose messages have in common what it asks for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import translation

from django_mq import conf
from django_mq.bulk.call import BulkCall
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.engine.decisions.bulk import alike
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import Reject, Release, Skip
from django_mq.seams.extension import Extension
from tests.delivery.builders import a_claimed, a_handler, a_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.seams.middleware import Execution, Proceed


@pytest.fixture
def added() -> Iterator[Callable[..., None]]:
    """Adds a middleware with these methods, and others inside of it, for the test only."""
    yield lambda *inner, **methods: conf.add_extension(
        Extension(name="test", middleware=(SimpleNamespace(**methods), *inner))
    )
    conf.remove_extension("test")


def verdicts(function: Callable[[list[Any]], Any], *rows: dict[str, Any]) -> list[Verdict]:
    """Call a handler of many with these messages, and again as often as its outcome says; return the verdicts."""
    handler = replace(a_handler(function), bulk=10)
    attempts = [Delivery(a_claimed(body=b"%d" % n, **row), handler, a_policy()) for n, row in enumerate(rows)]
    waiting, settled = [BulkCall(attempts)], []
    while waiting:
        outcome = waiting.pop(0).run()
        settled += outcome.settled
        waiting += outcome.again
    found = {attempt.claimed.id: settlement.verdict for attempt, settlement in settled}
    assert len(found) == len(settled)  # each message once
    return [found[attempt.claimed.id] for attempt in attempts]


GERMAN, ENGLISH = {"headers": '{"language": "de"}'}, {"headers": '{"language": "en"}'}


def test_messages_of_one_language_are_handled_together_in_it(settings: Settings) -> None:
    settings.DJANGO_MQ = {"MIDDLEWARE": ["django_mq.middleware.locale.LocaleMiddleware"]}
    calls: list[tuple[str | None, list[int]]] = []

    def handle(messages: list[Any]) -> None:
        calls.append((translation.get_language(), [message.body for message in messages]))

    assert verdicts(handle, GERMAN, ENGLISH, GERMAN, {}, {"headers": "["}) == [Verdict.ACCEPT] * 4 + [Verdict.DEAD]
    assert calls == [("de", [0, 2]), ("en", [1]), ("en-us", [3])]

    calls.clear()
    grouped = [{"group_key": "a", **row} for row in (GERMAN, ENGLISH, GERMAN)]
    verdicts(handle, *grouped)
    assert calls == [("de", [0]), ("en", [1]), ("de", [2])]  # in the order of the group


@pytest.mark.parametrize(
    ("error", "expected", "calls"),
    [
        (Skip(), Verdict.ACCEPT, 3),
        (Release(), Verdict.RELEASE, 1),
        (Reject("no"), Verdict.DEAD, 3),
        (ValueError("no"), Verdict.RELEASE, 3),
    ],
    ids=repr,
)
def test_what_a_middleware_raises_is_judged_as_what_the_handler_raises(
    added: Callable[..., None], error: Exception, expected: Verdict, calls: int
) -> None:
    seen: list[int] = []

    def process(attempt: Execution, proceed: Proceed) -> Any:
        seen.append(len(attempt.messages))
        raise error

    added(process=process)
    ran: list[Any] = []

    assert verdicts(ran.append, {}, {}) == [expected] * 2
    assert (ran, len(seen)) == ([], calls)


def test_a_middleware_that_keeps_an_error_to_itself_accepts_the_messages(added: Callable[..., None]) -> None:
    def process(attempt: Execution, proceed: Proceed) -> Any:
        with suppress(ZeroDivisionError):
            return proceed()

    added(process=process)

    assert verdicts(lambda messages: 1 / 0, {}, {}) == [Verdict.ACCEPT] * 2


def test_a_middleware_that_proceeds_again_after_an_error_settles_each_message_once(
    added: Callable[..., None],
) -> None:
    errors = [ValueError("after the handler")]

    def again(attempt: Execution, proceed: Proceed) -> Any:
        with suppress(ValueError):
            return proceed()
        return proceed()

    def fail_once(attempt: Execution, proceed: Proceed) -> Any:
        result = proceed()
        if errors:
            raise errors.pop()
        return result

    added(SimpleNamespace(process=fail_once), process=again)

    assert verdicts(lambda messages: None, {}, {}) == [Verdict.ACCEPT] * 2


def test_a_middleware_gives_the_handler_other_messages(added: Callable[..., None]) -> None:
    def process(attempt: Execution, proceed: Proceed) -> Any:
        changed = [message.changed(body=b"[%d]" % message.body) for message in attempt.messages]
        return proceed(replace(attempt, messages=changed))

    added(process=process)
    seen: list[Any] = []

    verdicts(lambda messages: seen.extend(message.body for message in messages), {}, {})

    assert seen == [[0], [1]]


def test_a_group_that_fails_is_an_error_of_each_message(added: Callable[..., None]) -> None:
    added(group=lambda message: 1 / message.body)

    assert verdicts(lambda _: None, {}, {}) == [Verdict.RELEASE, Verdict.ACCEPT]


def test_parts_of_one_value() -> None:
    for in_order, expected in ((False, [[1, 3, 5], [2]]), (True, [[1], [2], [3, 5]])):
        assert alike([1, 2, 3, 5], lambda number: number % 2, in_order=in_order) == expected
