"""Messages cross a bridge to three nodes of RabbitMQ, and others come back, while everything is killed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.conftest import skip_or_fail
from tests.proof.bridges import Crossing, settings_for
from tests.services.rabbitmq import RabbitMQCluster
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from tests.proof.conftest import Places
    from tests.services.postgresql import PostgreSQL

#: As many cross each way.
MESSAGES = 10_000
SCHEDULE = [
    "kill_worker",
    "memory",
    "freeze_worker",
    "kill_most",
    "cut",
    "crash_database",
    "password",
    "kill_worker",
    "freeze_worker",
    "kill_node",
    "disk",
]


@pytest.mark.once
def test_each_message_crosses_once_and_in_order_while_everything_is_killed(
    places: Places, postgresql_server: PostgreSQL
) -> None:
    try:
        cluster = RabbitMQCluster(durable=False)
    except UnavailableError as missing:
        skip_or_fail(missing)
    with cluster, places("postgresql", url=postgresql_server.url, **settings_for(cluster)) as place:
        crossing = Crossing(place, postgresql_server, cluster, random.Random(5), every=0.0)
        crossing.run(MESSAGES, lambda _: None, schedule=SCHEDULE)

    assert crossing.failures.total() == len(SCHEDULE)
