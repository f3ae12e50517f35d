"""A handler that learns a limit from its service, in a native worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.errors import RateLimited
from django_mq.limits import declared, throttle
from django_mq.models import Message
from django_mq.models.limit import LimitHold
from django_mq.stores.registry import shared_store
from tests.delivery.builders import a_handler, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> Iterator[str]:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "POLL_SECONDS": 0.05, "MAINTENANCE_SECONDS": 0.2}
    declare(shared_store(committed_database), "orders")
    throttle("orders", amount=1000, seconds=1, burst=1000, key="header:tenant")
    yield committed_database
    declared._limits.clear()
    conf.remove_extension(declared.NAME)


def test_what_a_service_limits_waits_uncounted_and_the_others_pass(alias: str) -> None:
    came: list[str] = []

    def handle(message: Any) -> None:
        came.append(message.headers["tenant"])
        if message.headers["tenant"] == "limited":
            raise RateLimited(retry_after_seconds=3600)

    publish("orders", 1, headers={"tenant": "limited"}, using=alias)
    rows = Message.objects.using(alias)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: rows.filter(state=Message.Status.SCHEDULED).exists())
        for tenant in ("limited", "limited", "free"):
            publish("orders", 1, headers={"tenant": tenant}, using=alias)
        wait_until(lambda: "free" in came)
        wait_until(lambda: rows.filter(state=Message.Status.PARKED).count() == 2)

    assert sorted(came) == ["free", "limited"]
    assert set(rows.values_list("attempts", flat=True)) == {0}


def test_a_time_that_cannot_be_holds_nothing_and_the_backoff_is_used(alias: str) -> None:
    wishes: list[Any] = ["30", "Wed, 21 Oct 2015 07:28:00 GMT", float("nan"), float("inf"), -5, None]

    def handle(message: Any) -> None:
        raise RateLimited(retry_after_seconds=wishes[message.body])

    for number in range(len(wishes)):
        publish("orders", number, headers={"tenant": "limited"}, using=alias)
    scheduled = Message.objects.using(alias).filter(state=Message.Status.SCHEDULED)
    with running(a_handler(handle), using=alias):
        wait_until(lambda: scheduled.count() == len(wishes))

    assert not LimitHold.objects.using(alias).exists()
