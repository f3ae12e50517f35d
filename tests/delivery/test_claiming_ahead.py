"""Claiming ahead from a queue with limits: quick messages come many at a time, slow ones do not wait in memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.api import publish_many
from django_mq.delivery.queues import declare
from django_mq.limits import concurrency, declared
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.on("sqlite")

ALL, QUICK, THREADS = 200, 60, 2


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    concurrency("orders", 1000)
    yield
    declared.forget("orders")
    conf.remove_extension(declared.NAME)


def test_what_was_claimed_ahead_goes_back_when_quick_messages_become_slow(committed_database: str) -> None:
    alias = committed_database
    declare(shared_store(alias), "orders")
    publish_many([("orders", number) for number in range(ALL)], using=alias)
    begun: list[Any] = []
    may_end = threading.Event()

    def handle(message: Any) -> None:
        begun.append(message.body)
        if len(begun) > QUICK:
            assert may_end.wait(PATIENCE_SECONDS)

    def claimed() -> int:
        return Message.objects.using(alias).filter(state=Message.Status.CLAIMED).count()

    with running(a_handler(handle), using=alias, threads=THREADS) as worker:
        wait_until(lambda: len(begun) == QUICK + THREADS and claimed() == THREADS)
        given_back = Message.objects.using(alias).filter(state=Message.Status.READY)
        assert not given_back.filter(attempts__gt=0).exists()

        may_end.set()
        wait_until(lambda: History.objects.using(alias).count() == ALL)
        assert worker.unfinished == 0

    assert sorted(begun) == list(range(ALL))
