"""Middleware is around every publish and around every attempt; it may refuse, change and wrap."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from django.core.management import CommandError, call_command
from django.db import connections

from django_mq import conf
from django_mq.api import (
    Decline,
    OutgoingMessage,
    Reject,
    Release,
    Retry,
    apublish,
    browse,
    publish,
    publish_many,
)
from django_mq.delivery.batch import publish_batch
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.publisher import with_headers
from django_mq.delivery.queues import declare
from django_mq.diagnosis.messages.copies import copy_of
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import InvalidMessage, MiddlewareMisused
from django_mq.integrations.celery.message import payload_of
from django_mq.integrations.celery.url import register
from django_mq.models import Message
from django_mq.seams.extension import Extension, Listening
from django_mq.stores.records import ClaimRequest, Lease, SessionInfo, headers_in
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.seams.middleware import Execution, Proceed, Publication

#: A middleware with these methods.
around = SimpleNamespace

#: The seam is above the stores, so one of them is enough.
ALIAS = "default"
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1")


@pytest.fixture
def added() -> Iterator[Callable[..., None]]:
    """Adds an extension, for the test only."""
    yield lambda *middleware, **others: conf.add_extension(Extension(name="test", middleware=middleware, **others))
    conf.remove_extension("test")


@pytest.fixture
def orders(transactional_db: None) -> str:
    declare(shared_store(ALIAS), "orders")
    shared_store(ALIAS).exchanges.bind(exchange="shop", exchange_type="fanout", pattern="", queue="orders")
    return "orders"


def stamp(publication: Publication, proceed: Proceed) -> None:
    """Write into each message how many are published together."""
    count = {"together": len(publication.messages)}
    proceed(
        replace(
            publication,
            messages=[with_headers(each, {**headers_in(each.headers), **count}) for each in publication.messages],
        )
    )


def celery_app() -> Celery:
    register()
    return Celery("unit", broker=f"django-mq:///{ALIAS}", set_as_current=False)


def by_celery() -> None:
    with celery_app() as app:
        app.send_task("note", queue="orders")


def by_celerys_batch() -> None:
    with celery_app() as app, app.connection_for_write() as connection:
        channel = connection.default_channel
        batch = channel.create_publish_batch(10)
        for _ in range(2):
            batch.publish(channel.prepare_message("{}", content_type="application/json"), "", "orders")
        batch.flush()


def by_a_copy() -> None:
    first = publish("orders", 1)
    publish_many([replace(copy_of(first, using=ALIAS), queue="orders")])


def by_command() -> None:
    call_command("mq_publish", "orders", "1", stdout=io.StringIO())


#: Each way to publish, with the number of messages that each of its writes has.
DOORS: dict[str, tuple[Callable[[], object], list[int]]] = {
    "publish": (lambda: publish("orders", 1), [1]),
    "publish with options": (lambda: publish("orders", 1, priority=9, headers={"a": 1}), [1]),
    "an exchange": (lambda: publish(exchange="shop", body=1), [1]),
    "publish_many": (
        lambda: publish_many([("orders", 1), OutgoingMessage(queue="orders", group_key="g")]),
        [2, 2],
    ),
    "apublish": (lambda: asyncio.run(apublish("orders", 1)), [1]),
    "a batch of bodies, which COPY may write": (
        lambda: publish_batch(OutgoingMessage(queue="orders"), [b"1"] * 3),
        [3, 3, 3],
    ),
    "a copy": (by_a_copy, [1, 1]),
    "a command": (by_command, [1]),
    "Celery": (by_celery, [1]),
    "a batch of Celery": (by_celerys_batch, [2, 2]),
}


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_every_way_to_publish_has_the_middleware(orders: str, added: Callable[..., None], door: str) -> None:
    seen: list[Any] = []

    def note(publication: Publication, proceed: Proceed) -> None:
        seen.extend((message.message_id, message.queue_name) for message in publication.messages)
        proceed()

    added(around(publish=stamp), around(publish=note))
    way, expected = DOORS[door]

    way()

    rows = (
        Message.objects.using(ALIAS).order_by("id").values_list("message_id", "queue__name", "headers__together")
    )
    assert [together for _, _, together in rows] == expected
    assert [(message_id, queue) for message_id, queue, _ in rows] == seen


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_every_way_to_publish_writes_who_is_told_of_the_ends(
    orders: str, added: Callable[..., None], door: str
) -> None:
    names = {"all": True, "none": False, "every": True}
    added(
        ends=tuple(
            Listening(
                name=name,
                ends=frozenset(),
                wants=lambda message, wanted=wanted: wanted and message.queue_name == "orders",
                tell=lambda _store, _ended: None,
            )
            for name, wanted in names.items()
        )
    )
    way, expected = DOORS[door]

    way()

    marks = Message.objects.using(ALIAS).values_list("told_to", flat=True)
    assert list(marks) == ["all every"] * len(expected)


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_what_the_middleware_refuses_is_not_written(orders: str, added: Callable[..., None], door: str) -> None:
    def refuse(publication: Publication, proceed: Proceed) -> None:
        raise InvalidMessage("not today")

    added(around(publish=refuse))

    with pytest.raises((InvalidMessage, CommandError), match="not today"):
        DOORS[door][0]()

    assert not Message.objects.using(ALIAS).exists()


def never(publication: Publication, proceed: Proceed) -> None:
    """Forget to proceed."""


def twice(publication: Publication, proceed: Proceed) -> Any:
    with publication.store.database.transaction():
        proceed()
        return proceed()


def after(publication: Publication, proceed: Proceed) -> Any:
    with publication.store.database.transaction():
        proceed()
        raise InvalidMessage("too late")


@pytest.mark.parametrize("door", DOORS, ids=str)
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [(never, "has returned without proceed"), (twice, "has called proceed.. again"), (after, "too late")],
)
def test_the_publisher_learns_of_a_middleware_that_goes_wrong_and_nothing_is_written(
    orders: str, added: Callable[..., None], door: str, wrong: Any, sentence: str
) -> None:
    added(around(publish=wrong))

    with pytest.raises((MiddlewareMisused, InvalidMessage, CommandError), match=sentence):
        DOORS[door][0]()

    assert not Message.objects.using(ALIAS).exists()


def test_the_first_middleware_is_the_outermost_and_sees_what_the_caller_gave(
    orders: str, added: Callable[..., None]
) -> None:
    told: list[str] = []

    def named(name: str) -> Any:
        def tell(publication: Publication, proceed: Proceed) -> None:
            told.append(f"{name} before {publication.messages[0].type}")
            proceed(replace(publication, messages=[replace(each, type=name) for each in publication.messages]))
            told.append(f"{name} after")

        return tell

    added(around(publish=named("first")), around(publish=named("second")))

    publish("orders", 1, type="given")

    assert told == ["first before given", "second before first", "second after", "first after"]
    assert Message.objects.using(ALIAS).get().type == "second"


def test_a_middleware_may_leave_messages_out_and_send_them_elsewhere(
    orders: str, added: Callable[..., None]
) -> None:
    declare(shared_store(ALIAS), "late")

    def choose(publication: Publication, proceed: Proceed) -> None:
        first, *_, last = publication.messages
        proceed(replace(publication, messages=[first, replace(last, queue_name="late")]))

    added(around(publish=choose))

    ids = publish_many([("orders", number) for number in range(3)])

    rows = Message.objects.using(ALIAS).order_by("id").values_list("message_id", "queue__name")
    assert list(rows) == [(ids[0], "orders"), (ids[2], "late")]


def test_the_middleware_writes_in_the_transaction_of_the_messages(orders: str, added: Callable[..., None]) -> None:
    def look(publication: Publication, proceed: Proceed) -> None:
        with publication.store.database.transaction():
            proceed()
            raise InvalidMessage("too late")

    added(around(publish=look))

    with pytest.raises(InvalidMessage, match="too late"):
        publish("orders", 1)

    assert not Message.objects.using(ALIAS).exists()


def test_a_message_of_a_transient_queue_passes_no_middleware(orders: str, added: Callable[..., None]) -> None:
    added(around(publish=stamp))
    with celery_app() as app:
        replies = app.control.inspect(timeout=0.01).ping()

    assert replies is None
    assert not Message.objects.using(ALIAS).exists()


def settled(middleware: Any, function: Callable[[Any], Any] = lambda _: None, **claimed: Any) -> Any:
    """Run one attempt with a middleware; return its settlement."""
    conf.add_extension(Extension(name="test", middleware=(around(process=middleware),)))
    return Delivery(a_claimed(**claimed), a_handler(function), a_policy(max_attempts=2)).run()


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "attempts", "outcome", "verdict"),
    [
        (Reject("no"), 0, "dead", Verdict.DEAD),
        (Release(), 0, "released", Verdict.RELEASE),
        (Decline(), 0, "declined", Verdict.DECLINE),
        (Retry(5), 0, "retried", Verdict.RELEASE),
        (ValueError("no"), 0, "retried", Verdict.RELEASE),
        (ValueError("no"), 1, "dead", Verdict.DEAD),
    ],
    ids=repr,
)
def test_what_a_middleware_raises_is_judged_as_what_a_handler_raises(
    added: Any, error: Exception, attempts: int, outcome: str, verdict: Verdict
) -> None:
    told: list[str] = []

    def ask(attempt: Execution, proceed: Proceed) -> Any:
        try:
            return proceed()
        except Exception as raised:
            told.append(attempt.outcome(raised))
            raise

    assert settled(raising(error), attempts=attempts).verdict is verdict  # by the middleware
    conf.remove_extension("test")
    assert settled(ask, raising(error), attempts=attempts).verdict is verdict  # by the handler
    assert told == [outcome]


def test_a_middleware_gives_the_handler_another_message_and_gets_what_it_returns(added: Any) -> None:
    returned: list[Any] = []

    def decrypt(attempt: Execution, proceed: Proceed) -> Any:
        assert attempt.handler.queue == attempt.message.queue
        plain = attempt.message.changed(body=attempt.message.body[::-1], content_type="application/json")
        returned.append(proceed(replace(attempt, message=plain)))

    settlement = settled(
        decrypt, lambda message: message.body["n"], body=b'}7 :"n"{', content_type="application/octet-stream"
    )

    assert returned == [7]
    assert settlement.verdict is Verdict.ACCEPT


def test_a_message_that_cannot_be_read_passes_the_middleware_and_is_dead(added: Any) -> None:
    told: list[str] = []

    def look(attempt: Execution, proceed: Proceed) -> Any:
        try:
            return proceed()
        except Exception as error:
            told.append(type(error).__name__)
            raise

    assert settled(look, body=b"{").verdict is Verdict.DEAD
    assert told == ["CorruptMessage"]


def test_an_error_of_the_handler_that_a_middleware_catches_is_none(added: Any) -> None:
    def catch(attempt: Execution, proceed: Proceed) -> Any:
        with pytest.raises(ValueError, match="no"):
            proceed()

    assert settled(catch, raising(ValueError("no"))).verdict is Verdict.ACCEPT


@pytest.mark.parametrize("fails", ["before", "after"])
def test_the_middleware_is_outside_of_the_transaction_of_the_handler(
    orders: str, added: Callable[..., None], caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    publish("orders", 1)
    in_transaction: list[bool] = []

    def look(attempt: Execution, proceed: Proceed) -> Any:
        if fails == "before":
            raise ValueError("no")
        in_transaction.append(connections[ALIAS].in_atomic_block)
        proceed()
        raise ValueError("no")

    added(around(process=look))
    store = shared_store(ALIAS)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    handler = a_handler(
        lambda _: in_transaction.append(connections[ALIAS].in_atomic_block) or publish("orders", 2),
        transactional=True,
    )
    delivery = Delivery(claimed, handler, a_policy(), Lease(ALIAS, session))

    settlement = delivery.run()

    if fails == "before":
        assert (settlement.verdict, delivery.settled) == (Verdict.RELEASE, False)
    else:
        assert (settlement.verdict, delivery.settled) == (Verdict.ACCEPT, True)
        assert in_transaction == [False, True]
        assert "or a middleware has failed after" in caplog.text
        assert [row.body for row in Message.objects.using(ALIAS)] == [b"2"]


def test_without_middleware_nothing_is_put_around(orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("django_mq.delivery.publisher", "django_mq.delivery.consumer.attempt"):
        monkeypatch.delattr(f"{module}.surrounded")

    publish("orders", 1)
    publish_many([("orders", 1)])

    assert Delivery(a_claimed(), a_handler(), a_policy()).run().verdict is Verdict.ACCEPT


class Reversing:
    """Turns the bytes of bodies round."""

    mark = "reversed, "

    def publish(self, publication: Publication, proceed: Proceed) -> Any:
        changed = [
            replace(each, body=each.body[::-1], content_encoding=f"{self.mark}{each.content_encoding}")
            for each in publication.messages
        ]
        return proceed(replace(publication, messages=changed))

    def decode(self, body: bytes, content_encoding: str) -> tuple[bytes, str] | None:
        if not content_encoding.startswith(self.mark):
            return None
        return body[::-1], content_encoding.removeprefix(self.mark)


class Marking(Reversing):
    """Names another encoding."""

    mark = "marked, "


@pytest.mark.parametrize("body", [{"a": 1}, b"abc"], ids=repr)
@pytest.mark.parametrize("order", [1, -1])
def test_the_bytes_of_a_body_are_as_published_wherever_they_are_read(
    orders: str, added: Callable[..., None], order: int, body: Any
) -> None:
    added(*[Reversing(), Marking()][::order])
    message_id = publish("orders", body)
    row = Message.objects.using(ALIAS).get()
    assert row.content_encoding in ("reversed, marked, utf-8", "marked, reversed, utf-8")
    conf.remove_extension("test")
    added(Reversing(), Marking())  # the order of the settings may change

    (browsed,) = browse("orders", using=ALIAS)
    assert browsed.body == body
    assert copy_of(message_id, using=ALIAS).body == body
    store = shared_store(ALIAS)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    read: list[Any] = []
    assert Delivery(claimed, a_handler(lambda message: read.append(message.body)), a_policy()).run().reason == ""
    payload = payload_of(claimed, session, priority=4)  # type: ignore[arg-type]
    assert (payload["content-encoding"], payload["content-type"]) == ("utf-8", row.content_type)
    assert [read[0], payload["body"]] == [body, body if isinstance(body, bytes) else b'{"a":1}']


def test_a_body_that_its_middleware_cannot_read_is_corrupt(added: Any) -> None:
    def fail(body: bytes, content_encoding: str) -> Any:
        raise EOFError("cut off")

    added(around(decode=fail))

    settlement = Delivery(a_claimed(content_encoding="zipped"), a_handler(), a_policy()).run()

    assert settlement.verdict is Verdict.DEAD
    assert "fail cannot decode a body of content encoding 'zipped': EOFError('cut off')" in settlement.reason
