"""Typed handlers: what they are called with, what they publish, and what becomes of a body that does not fit."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.urls import reverse

from django_mq import conf
from django_mq.api import OutgoingMessage, browse, consumer, publish
from django_mq.checks import check_handlers
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handler_function import PublishOptions
from django_mq.delivery.consumer.handlers import Handler, discover, forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.errors import ConfigurationError, InvalidMessage
from tests.delivery.builders import a_claimed, a_policy
from tests.typed.decorators import of_two_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.test import Client
    from pytest_django import Settings

    from django_mq import api as mq
    from django_mq.api import ReceivedMessage
    from tests.nowhere import Missing

QUEUE = "typed-here"


@dataclass
class Receipt:
    order: int
    note: str = ""


@dataclass
class ReceiptV2:
    cents: int


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    """The registry belongs to the process."""
    yield
    forget(QUEUE)


@pytest.fixture
def queue(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "QUEUES": {QUEUE: {}}}


def run(handler: Handler, body: Any, **claimed: Any) -> Any:
    """Deliver one message; return its settlement."""
    return Delivery(a_claimed(body=json.dumps(body).encode(), **claimed), handler, a_policy()).run()


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function as decorators do."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def of_a_body(receipt: Receipt) -> Any:
    return receipt


def of_both(receipt: Receipt, message: ReceivedMessage) -> Any:
    return receipt, message.headers


def of_a_plain_body(body, message: ReceivedMessage):  # type: ignore[no-untyped-def]
    return body, message.headers


def of_both_or_one(receipt: Receipt, message: ReceivedMessage | None = None) -> Any:
    return receipt, message.headers if message else None


def of_a_message(message: ReceivedMessage) -> Any:
    return message.body


def of_a_message_of_a_module(message: mq.ReceivedMessage) -> Any:
    return message.body


def of_a_body_and_a_default(receipt: Receipt, dry: bool = False) -> Any:
    return receipt, dry


def parse(body: Receipt) -> Any:
    return body.order


class Receiver:
    """Handlers that are no functions."""

    def method(self, receipt: Receipt) -> Any:
        return receipt

    def __call__(self, receipt: Receipt) -> Any:
        return receipt


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (of_a_body, Receipt(7)),
        (of_both, (Receipt(7), {"h": 1})),
        (of_a_plain_body, ({"order": 7}, {"h": 1})),
        (of_both_or_one, (Receipt(7), {"h": 1})),
        (of_a_message, {"order": 7}),
        (of_a_message_of_a_module, {"order": 7}),
        (of_two_modules(parse), 7),
        (of_a_body_and_a_default, (Receipt(7), False)),
        (logged(of_both), (Receipt(7), {"h": 1})),
        (partial(of_both), (Receipt(7), {"h": 1})),
        (Receiver().method, Receipt(7)),
        (Receiver(), Receipt(7)),
    ],
)
def test_the_annotations_say_what_a_handler_is_called_with(function: Any, got: Any) -> None:
    consumer(QUEUE)(function)
    [handler] = discover()[QUEUE]
    message = a_claimed(body=b'{"order": 7}', headers='{"h": 1}')

    assert handler.call(Delivery(message, handler, a_policy()).message) == got


def test_a_handler_of_the_message_has_no_arguments_to_make() -> None:
    consumer(QUEUE)(of_a_message)

    assert handler_of(QUEUE).arguments is None


def test_a_body_that_does_not_fit_is_a_dead_letter_and_the_handler_is_not_called() -> None:
    called: list[Receipt] = []

    @consumer(QUEUE)
    def handle(receipt: Receipt) -> None:
        called.append(receipt)

    settlement = run(handler_of(QUEUE), {"order": "<b>7</b>"})

    assert settlement.verdict is Verdict.DEAD
    assert settlement.reason == (
        "UnfitBody: The body does not fit Receipt: order must be a whole number, and is a text."
    )
    assert called == []


def missing(body: Missing) -> None:
    """Take what is imported for the type checker only."""


def test_a_name_that_is_missing_is_looked_up_later_and_then_said_by_a_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer(QUEUE)(missing)
    reason = (
        r"The handler of 'typed-here', .*missing, has the annotation 'Missing', which cannot be resolved: name"
    )
    with pytest.raises(ConfigurationError, match=reason):
        discover()
    assert [(found.id, "'Missing'" in found.msg) for found in check_handlers()] == [("django_mq.W007", True)]

    monkeypatch.setitem(globals(), "Missing", Receipt)

    assert discover()[QUEUE][0].arguments is not None
    assert check_handlers() == []


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda one, two: None, "a second one is the message, if its annotation is ReceivedMessage"),
        (lambda: None, "cannot be called with one positional argument"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused(function: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        consumer(QUEUE)(function)


def test_a_type_that_no_body_can_become_is_refused_and_the_handler_named() -> None:
    def handle(receipts: list[State | Client]) -> None:
        """Take what cannot be."""

    handle.__annotations__ = {"receipts": type("Client", (), {})}

    with pytest.raises(ConfigurationError, match=r"handler of 'typed-here', .*handle, has the annotation Client,"):
        consumer(QUEUE)(handle)


# The decorated function.


@consumer("typed-elsewhere")
def send(receipt: Receipt) -> int:
    """Send a receipt."""
    return receipt.order


forget("typed-elsewhere")


def test_a_decorated_function_is_called_and_looks_as_before() -> None:
    assert send(Receipt(7)) == send(receipt=Receipt(7)) == 7
    assert (send.__name__, send.__doc__, signature(send)) == ("send", "Send a receipt.", signature(send.function))
    assert pickle.loads(pickle.dumps(send)) is send
    assert repr(send) == f"<handler {__name__}.send of typed-elsewhere>"


def test_a_function_with_two_queues_is_one_function() -> None:
    both = consumer(QUEUE)(send)

    assert handler_of(QUEUE).function is both.function is send.function


def test_an_asynchronous_function_is_known_as_such() -> None:
    async def handle(receipt: Receipt) -> None:
        """Send a receipt."""

    consumer(QUEUE)(send)
    from django_mq.delivery.consumer.handler_function import HandlerFunction

    assert iscoroutinefunction(HandlerFunction(handle, handler_of(QUEUE)))


def test_the_options_of_a_handlers_publish_are_those_of_publish() -> None:
    theirs = set(signature(publish).parameters) - {"queue", "body", "exchange", "routing_key"}

    assert set(PublishOptions.__annotations__) == theirs
    assert theirs - {"using"} <= set(OutgoingMessage.__dataclass_fields__)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("queue")
def test_a_handler_publishes_to_its_queue_and_gets_the_same_object() -> None:
    got: list[Any] = []

    @consumer(QUEUE, type="receipt.v2")
    def handle(receipt: ReceiptV2) -> None:
        got.append(receipt)

    @consumer(QUEUE)
    def handle_others(message: ReceivedMessage) -> None:
        got.append((message.type, message.body))

    ids = [handle.publish(ReceiptV2(1), priority=9)]
    ids += handle.publish_many([ReceiptV2(2), ReceiptV2(3)])
    ids.append(async_to_sync(handle.apublish)(ReceiptV2(4)))
    ids.append(handle_others.publish({"any": Receipt(1)}, type="old"))
    later = handle.publish(ReceiptV2(5), delay=60)
    assert [message.id for message in browse(QUEUE)] == ids
    assert [message.id for message in browse(QUEUE, states=[State.SCHEDULED])] == [later]
    Worker(discover()[QUEUE], threads=1).run(until_empty=True)

    assert sorted(got, key=repr) == [
        ("old", {"any": {"order": 1, "note": ""}}),
        *(ReceiptV2(number) for number in (1, 2, 3, 4)),
    ]


@pytest.mark.django_db
@pytest.mark.usefixtures("queue")
def test_a_handler_of_many_publishes_one_item() -> None:
    @consumer(QUEUE, bulk=10)
    def handle(receipts: list[Receipt]) -> None:
        """Send receipts."""

    handle.publish(Receipt(1))
    handle.publish_many([Receipt(2)])
    with pytest.raises(InvalidMessage, match="does not fit Receipt: it must be an object, and is a list"):
        handle.publish([Receipt(3)])  # type: ignore[arg-type]

    assert [message.body["order"] for message in browse(QUEUE)] == [1, 2]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("queue")
def test_a_message_of_an_unknown_type_stays_in_the_queue() -> None:
    @consumer(QUEUE, type="receipt.v1")
    def handle(receipt: Receipt) -> None:
        """Send a receipt."""

    publish(QUEUE, {"cents": 1}, type="receipt.v2")
    Worker(discover()[QUEUE], threads=1).run(until_empty=True)

    assert [(message.type, message.attempts) for message in browse(QUEUE)] == [("receipt.v2", 0)]


@pytest.mark.django_db
@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("body", [{"order": "7"}, Receipt("7"), b"7", None])  # type: ignore[arg-type]
def test_a_body_that_does_not_fit_is_not_published(body: Any) -> None:
    handle: Any = consumer(QUEUE)(of_a_body)

    with pytest.raises(InvalidMessage, match="The body does not fit Receipt: "):
        handle.publish_many([Receipt(1), body])
    with pytest.raises(InvalidMessage, match="The body does not fit Receipt: "):
        async_to_sync(handle.apublish)(body)

    assert list(browse(QUEUE)) == []


@pytest.mark.django_db
@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("other", ["receipt.v3", ""])
def test_a_handler_of_a_type_publishes_no_other_type(other: str) -> None:
    @consumer(QUEUE, type="receipt.v2")
    def handle(receipt: Receipt) -> None:
        raise AssertionError

    with pytest.raises(InvalidMessage, match=r"takes messages of the type 'receipt\.v2', not '"):
        handle.publish(Receipt(1), type=other)

    handle.publish(Receipt(1), type="receipt.v2")
    assert [message.type for message in browse(QUEUE)] == ["receipt.v2"]


@pytest.mark.django_db
@pytest.mark.usefixtures("queue")
def test_a_handler_publishes_to_no_exchange() -> None:
    handle: Any = consumer(QUEUE)(of_a_body)

    with pytest.raises(InvalidMessage, match="Name a queue or an exchange, not both"):
        handle.publish(Receipt(1), exchange="shop")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("queue")
def test_the_admin_shows_the_reason_escaped(client: Client, admin_user: Any) -> None:
    @consumer(QUEUE)
    def handle(numbers: dict[str, int]) -> None:
        """Take numbers."""

    publish(QUEUE, {"<script>alert(1)</script>": "x"})
    Worker(discover()[QUEUE], threads=1).run(until_empty=True)
    [dead] = browse(QUEUE, states=[State.DEAD])
    assert "<script>" in dead.dead_reason

    from django_mq.models import Message

    client.force_login(admin_user)
    url = reverse("admin:django_mq_message_change", args=[Message.objects.get().pk])
    page = client.get(url).content.decode()

    assert "UnfitBody: The body does not fit dict[str, int]: [&#x27;&lt;script&gt;" in page
    assert "<script>alert(1)" not in page


def test_a_plain_body_asks_no_extension_while_it_is_written() -> None:
    from django_mq.delivery.codecs import KNOWN, BodyEncoder

    assert all(not issubclass(kind, Receipt) for kind in KNOWN)
    assert conf.extensions().encoders
    assert BodyEncoder().default(Receipt(7)) == {"order": 7, "note": ""}
