"""A consumer gives back what it has claimed of a paused queue and no callback has received."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kombu import Connection, Consumer, Producer, Queue

from django_mq.api import pause, resume
from django_mq.integrations.celery import deliveries
from django_mq.models import Consumer as ConsumerRow
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    import pytest

    from tests.integrations.celery.conftest import Rows

NAMES = ("things", "others")


def test_of_a_paused_queue_what_no_callback_has_received_goes_back_and_comes_again(
    connection: Connection, committed_database: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "STALE_SECONDS", PATIENCE_SECONDS)
    received: list[Any] = []

    def drain_until(condition: Any) -> None:
        def is_met() -> bool:
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.05)
            return bool(condition())

        wait_until(is_met)

    def shown() -> dict[str, str]:
        return dict(ConsumerRow.objects.using(committed_database).values_list("queue_name", "state"))

    channel = connection.default_channel
    with Consumer(channel, map(Queue, NAMES), on_message=received.append) as consumer:
        consumer.qos(prefetch_count=1)
        Producer(channel).publish("begun", routing_key="things")
        drain_until(lambda: received)
        for name in NAMES:
            Producer(channel).publish(name, routing_key=name)
        request = ClaimRequest(queues=NAMES, credit=2)
        connection.transport.deliveries.buffer.add(
            connection.transport.deliveries.session.settle_and_claim(request).claimed
        )

        pause("things")
        drain_until(lambda: rows(state=Message.Status.READY) and shown() == {"things": "paused", "others": "busy"})
        assert [row.queue.name for row in rows(state=Message.Status.CLAIMED)] == list(NAMES)

        received[-1].ack()
        drain_until(lambda: len(received) == 2)
        resume("things")
        received[-1].ack()
        drain_until(lambda: len(received) == 3 and shown() == {"things": "busy", "others": "busy"})

    assert [message.payload for message in received] == ["begun", "others", "things"]
