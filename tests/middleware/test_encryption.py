"""Bodies are encrypted wherever they are stored, and plain wherever code reads them."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from django.core.management import call_command

from django_mq.api import OutgoingMessage, browse, consumer, publish
from django_mq.checks import check_settings
from django_mq.delivery.codecs import ENCRYPTED, key_of
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import forget, handler_of
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.operator.redrives import redrive
from django_mq.delivery.queues import declare
from django_mq.diagnosis.messages.copies import copy_of, copy_of_line
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import CorruptMessage, InvalidMessage, LostKey
from django_mq.integrations.celery.message import payload_of
from django_mq.integrations.celery.url import register
from django_mq.models import Attempt, History, Message, Queue
from django_mq.stores.records import ClaimRequest, headers_in
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_claimed, a_handler, a_policy
from tests.seams.test_middleware import ALIAS, DOORS, WORKER, orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from django_mq.seams.middleware import Proceed, Publication

__all__ = ["orders"]

PATH = "django_mq.middleware.encryption.EncryptionMiddleware"
#: The same in each process of the tests, which names tests by its parameters.
KEYS = {"2026": urlsafe_b64encode(b"6" * 32).decode(), "2025": urlsafe_b64encode(b"5" * 32).decode()}
SECRET = "4111 1111 1111 1111"


class Compress:
    """Compresses bodies, as the page of middleware does."""

    def publish(self, publication: Publication, proceed: Proceed) -> Any:
        changed = [
            replace(each, body=gzip.compress(each.body), content_encoding=f"gzip, {each.content_encoding}")
            for each in publication.messages
        ]
        return proceed(replace(publication, messages=changed))

    def decode(self, body: bytes, content_encoding: str) -> tuple[bytes, str] | None:
        if not content_encoding.startswith("gzip, "):
            return None
        return gzip.decompress(body), content_encoding.removeprefix("gzip, ")


@pytest.fixture
def keys(settings: Settings) -> Callable[..., None]:
    """Sets the keys of this process, the first one encrypts; without keys, the middleware is left out."""

    def use(*ids: str, before: tuple[str, ...] = (), **mq: Any) -> None:
        path = [PATH] if ids else []
        settings.DJANGO_MQ = mq | {
            "MIDDLEWARE": [*before, *path],
            "ENCRYPTION_KEYS": {key_id: KEYS[key_id] for key_id in ids},
        }

    use("2026", "2025")
    return use


def claimed_of(queue: str = "orders") -> Any:
    store = shared_store(ALIAS)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=(queue,), credit=1)).claimed
    return claimed


def read_by_a_handler() -> Any:
    read: list[Any] = []
    settlement = Delivery(
        claimed_of(), a_handler(lambda message: read.append(message.body)), a_policy(max_attempts=3)
    ).run()
    return read[0] if read else settlement


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_every_way_to_publish_encrypts_the_body(orders: str, keys: Callable[..., None], door: str) -> None:
    DOORS[door][0]()

    rows = list(Message.objects.using(ALIAS))
    assert rows
    assert {key_of(bytes(row.body)) for row in rows} == {"2026"}
    assert {row.content_encoding for row in rows} == {ENCRYPTED}


@pytest.mark.parametrize(
    "before", [(), ("tests.middleware.test_encryption.Compress",)], ids=["plain", "compressed"]
)
@pytest.mark.parametrize("body", [{"card": SECRET}, SECRET.encode(), None], ids=repr)
def test_code_reads_the_body_and_the_table_has_it_encrypted(
    orders: str, keys: Callable[..., None], body: Any, before: tuple[str, ...]
) -> None:
    keys("2025", before=before)
    message_id = publish("orders", body, headers={"region": "eu"}, type="card", group_key="7")
    keys("2026", "2025", before=before)  # a new key is first

    row = Message.objects.using(ALIAS).get()
    assert key_of(bytes(row.body)) == "2025"
    assert SECRET.encode() not in bytes(row.body)
    assert (row.headers, row.type, row.group_key) == ({"region": "eu"}, "card", "7")
    assert [message.body for message in browse("orders", selector="region = 'eu'")] == [body]
    assert copy_of(message_id, using=ALIAS).body == body
    assert read_by_a_handler() == body


@pytest.mark.parametrize("body", [{"card": SECRET}, b"bytes"], ids=repr)
@pytest.mark.parametrize("left", [("2026",), ()], ids=repr)
def test_a_message_whose_key_is_lost_is_a_dead_letter_and_runs_when_the_key_is_back(
    transactional_db: None, keys: Callable[..., None], left: tuple[str, ...], body: Any
) -> None:
    declare(shared_store(ALIAS), "cards")
    Queue.objects.using(ALIAS).update(history_body=True)
    keys("2025")
    publish("cards", body)
    ran: list[Any] = []
    consumer("cards")(lambda message: ran.append(message.body))
    try:
        keys(*left)
        Worker([handler_of("cards")], threads=1).run(until_empty=True)
        dead = Message.objects.using(ALIAS).get()
        assert (dead.state, ran) == (Message.Status.DEAD, [])
        assert "LostKey: The body is encrypted with the key '2025'" in dead.dead_reason
        assert Attempt.objects.using(ALIAS).get().error == "LostKey"

        keys("2026", "2025")
        redrive("cards")
        Worker([handler_of("cards")], threads=1).run(until_empty=True)
    finally:
        forget("cards")

    assert ran == [body]
    assert key_of(bytes(History.objects.using(ALIAS).get().body or b"")) == "2025"


@pytest.mark.parametrize("changed", [b"x", b""], ids=["changed", "cut off"])
def test_a_changed_body_is_refused(keys: Callable[..., None], orders: str, changed: bytes) -> None:
    publish("orders", SECRET)
    row = Message.objects.using(ALIAS).get()
    body = bytes(row.body)[:-1] + changed

    settlement = Delivery(a_claimed(body=body, content_encoding=ENCRYPTED), a_handler(), a_policy()).run()

    assert settlement.verdict is Verdict.DEAD
    assert "CorruptMessage: The body was changed, or the key '2026'" in settlement.reason


def test_a_celery_task_is_encrypted_with_the_description_of_its_arguments(
    orders: str, keys: Callable[..., None]
) -> None:
    register()
    with Celery("unit", broker=f"django-mq:///{ALIAS}", set_as_current=False) as app:
        app.send_task("pay", args=[SECRET], kwargs={"card": SECRET}, queue="orders", compression="gzip")

    claimed = claimed_of()
    assert SECRET.encode() not in claimed.body
    assert SECRET not in claimed.headers
    assert SECRET not in (claimed.properties or "")
    headers = headers_in(claimed.headers)
    assert (headers["argsrepr"], headers["kwargsrepr"], headers["task"]) == (ENCRYPTED, ENCRYPTED, "pay")
    payload = payload_of(claimed, None, priority=4)  # type: ignore[arg-type]
    assert SECRET.encode() in zlib.decompress(payload["body"])
    assert payload["content-encoding"] == "utf-8"
    keys("2025")
    with pytest.raises(LostKey, match="'2026'"):
        payload_of(claimed, None, priority=4)  # type: ignore[arg-type]


def test_operators_see_that_a_body_is_encrypted(orders: str, keys: Callable[..., None]) -> None:
    publish("orders", SECRET)

    looks = ["mq_browse", "orders", "--json"], ["mq_browse", "orders"], ["mq_download", "--csv"], ["mq_download"]
    for look in looks:
        said = io.StringIO()
        call_command(*look, stdout=said)
        assert ENCRYPTED in said.getvalue()
        assert "\\x00" not in said.getvalue()
        assert "\x00" not in said.getvalue()
    line = json.loads(said.getvalue().splitlines()[0])
    assert (line["body"], line["encrypted_with"]) == (ENCRYPTED, "2026")
    with pytest.raises(InvalidMessage, match="encrypted with the key '2026', and a copy would lack it"):
        copy_of_line(line, OutgoingMessage(queue="orders"))


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        ({}, "E014", "has no key; add one"),
        ({"2026": "short"}, "E014", "The key '2026' of DJANGO_MQ['ENCRYPTION_KEYS'] is no key of Fernet"),
        ({"2026": 7}, "E003", "ENCRYPTION_KEYS is wrong; give keys by their ids"),
        ({"a key": KEYS["2026"]}, "E003", "ENCRYPTION_KEYS is wrong"),
        ([KEYS["2026"]], "E003", "ENCRYPTION_KEYS is wrong"),
    ],
    ids=repr,
)
def test_keys_that_cannot_be_used_are_reported_without_their_values(
    settings: Settings, given: Any, code: str, sentence: str
) -> None:
    settings.DJANGO_MQ = {"MIDDLEWARE": [PATH], "ENCRYPTION_KEYS": given}

    (found,) = check_settings()

    assert (found.id, sentence in found.msg) == (f"django_mq.{code}", True), found.msg
    assert KEYS["2026"] not in found.msg + str(found.hint)
    assert "short" not in found.msg


def test_keys_that_no_middleware_uses_are_reported(keys: Callable[..., None], settings: Settings) -> None:
    assert check_settings() == []

    settings.DJANGO_MQ = {"ENCRYPTION_KEYS": KEYS}
    assert [found.id for found in check_settings()] == ["django_mq.W010"]


def test_an_error_about_a_key_can_be_pickled_by_a_pool() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(LostKey("2025")))

    assert isinstance(error, CorruptMessage)
    assert (error.key_id, str(error)) == ("2025", str(LostKey("2025")))


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    yield
    forget("cards")
