"""Which handlers a Celery worker runs in its pool, and which beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.consumer.handlers import Way
from django_mq.errors import ConfigurationError
from django_mq.integrations.celery.step import check_process, divided
from django_mq.stores.registry import MEMORY
from tests.delivery.builders import a_handler

if TYPE_CHECKING:
    from pytest_django import Settings

    from django_mq.delivery.consumer.handlers import Handler


ONE, OF_DEATHS, MAIL = a_handler(), a_handler(queue="orders.on_dead"), a_handler(queue="mails")
SELECTING, LIST, COROUTINE = a_handler(selector="a = 1"), a_handler(way=Way.BULK), a_handler(way=Way.EVENT_LOOP)


@pytest.mark.parametrize(
    ("handlers", "pooled"),
    [
        ([ONE], True),
        ([SELECTING], True),
        ([SELECTING, ONE], False),
        ([ONE, ONE], False),
        ([LIST], False),
        ([COROUTINE], False),
        ([SELECTING, COROUTINE], False),
    ],
)
def test_a_plain_handler_without_others_runs_in_the_pool_and_what_tells_of_deaths_goes_along(
    handlers: list[Handler], pooled: bool
) -> None:
    known = {"mails": [MAIL], "orders": handlers, "orders.on_dead": [OF_DEATHS]}

    found = divided(known)

    assert found == (([MAIL, *handlers, OF_DEATHS], []) if pooled else ([MAIL], ["orders", "orders.on_dead"]))


def test_a_process_beside_the_pool_cannot_see_queues_in_memory(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="does not see queues in memory; use a database"):
        check_process(MEMORY)

    settings.SETTINGS_MODULE = None
    with pytest.raises(ConfigurationError, match="name it in DJANGO_SETTINGS_MODULE"):
        check_process("default")
