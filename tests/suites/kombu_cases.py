"""Kombu's integration kit as test cases for ``django-mq://``.

Read by a pytest of its own that has Kombu's ``t`` folder on its path; see ``kombu.py``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import django
import pytest
from kombu import Connection
from t.integration import common
from t.integration.common import (
    BaseExchangeTypes,
    BaseFailover,
    BaseMessage,
    BasePriority,
    BaseTimeToLive,
    BasicFunctionality,
)

from django_mq.integrations.celery import known  # noqa: F401 - Kombu learns the scheme by this import

django.setup()

URL = "django-mq://"
#: A database that is not there, on the same transport: Kombu takes the transport before it connects.
DEAD = "django-mq:///nowhere"
#: The kit tells an alternate from the first URL by its port, which means nothing here.
ALTERNATE = "django-mq://:1"


@pytest.fixture
def connection() -> Connection:
    return Connection(URL)


@pytest.fixture
def invalid_connection() -> Connection:
    return Connection(DEAD)


@pytest.fixture
def failover_connection() -> Connection:
    return Connection(f"{DEAD};{ALTERNATE}")


class TestBasicFunctionality(BasicFunctionality):
    pass


class TestExchangeTypes(BaseExchangeTypes):
    pass


class Thorough(Connection):
    """Delivers all that waits in one call, as py-amqp does, which the kit expects. Redis and we deliver one."""

    def drain_events(self, **kwargs: Any) -> None:
        super().drain_events(**kwargs)
        with suppress(TimeoutError):
            while True:
                super().drain_events(timeout=0.2)


class TestPriority(BasePriority):
    PRIORITY_ORDER = "asc"

    @pytest.fixture
    def connection(self) -> Connection:
        return Thorough(URL)


class TestTimeToLive(BaseTimeToLive):
    pass


class TestFailover(BaseFailover):
    pass


class TestMessage(BaseMessage):
    pass


# Kombu has these since 5.7.
if hasattr(common, "BaseEventLoop"):

    class TestEventLoop(common.BaseEventLoop):
        pass
