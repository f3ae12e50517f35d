"""Middleware around many coroutines at once: each in its own context, none in the way of another."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from cryptography.fernet import Fernet
from django.utils import translation

from django_mq import conf
from django_mq.api import apublish, publish
from django_mq.models import Message, Queue
from django_mq.seams.extension import Extension
from tests.coroutines.test_async_handlers import a_worker, alias, an_async_handler, finished
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["alias"]
SHIPPED = ["django_mq.middleware.locale.LocaleMiddleware", "django_mq.middleware.encryption.EncryptionMiddleware"]


def test_many_coroutines_have_each_the_language_of_its_message(alias: str, settings: Settings) -> None:
    keys = {"2026": Fernet.generate_key().decode()}
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MIDDLEWARE": SHIPPED, "ENCRYPTION_KEYS": keys}
    seen: list[tuple[str, Any]] = []
    all_wait = asyncio.Event()

    async def handle(message: Any) -> None:
        seen.append((message.body, None))
        if len(seen) == 20:
            all_wait.set()
        await asyncio.wait_for(all_wait.wait(), PATIENCE_SECONDS)
        in_a_thread = await sync_to_async(translation.get_language)()
        seen.append((message.body, (translation.get_language(), in_a_thread)))
        if message.body == "de":
            await apublish("letters", "on", using=alias)

    Queue.objects.using(alias).get_or_create(name="letters")
    for number in range(20):
        with translation.override(("de", "en")[number % 2]):
            publish("orders", ("de", "en")[number % 2])
    a_worker(an_async_handler(handle), using=alias).run(until_empty=True)

    assert [found for found in seen if found[1]] == [found for found in seen if found[1] == (found[0],) * 2]
    assert finished(alias) == 20
    assert {row.headers["language"] for row in Message.objects.using(alias)} == {"de"}


def test_synchronous_middleware_of_more_coroutines_than_threads_blocks_none_for_ever(alias: str) -> None:
    threads: dict[int, set[int]] = {}

    def process(attempt: Any, proceed: Any) -> Any:
        threads[attempt.message.body] = {threading.get_ident()}
        return proceed()

    async def handle(message: Any) -> None:
        threads[message.body].add(await sync_to_async(threading.get_ident)())
        await sync_to_async(Queue.objects.using(alias).exists)()

    conf.add_extension(Extension(name="around", middleware=(SimpleNamespace(process=process),)))
    try:
        for number in range(10):
            publish("orders", number)
        a_worker(an_async_handler(handle), using=alias, threads=2).run(until_empty=True)
    finally:
        conf.remove_extension("around")

    assert finished(alias) == 10
    # The queries of a coroutine run in the thread in which its middleware has set something on the connection.
    assert {len(found) for found in threads.values()} == {1}
