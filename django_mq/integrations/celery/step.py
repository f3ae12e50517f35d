"""The worker step: free slots for the transport, and native handlers as work.

Added to every Celery worker by ``worker_init``; it does nothing on another transport.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.platforms import EX_OK
from celery.worker import state

from django_mq import conf
from django_mq.delivery.handlers import check_transactions, sole_handlers
from django_mq.integrations.celery import failures, revoking
from django_mq.integrations.celery.native import NativeConsumer
from django_mq.integrations.celery.qos import begin_if_certain, keep_given
from django_mq.integrations.celery.transport import ServedWorker, forget_left
from django_mq.integrations.celery.url import SCHEME


class MQStep(bootsteps.StartStopStep):
    """Tells the transport how many tasks could start now, and consumes native queues."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Connect the consumer with the transport beneath it, anew after each reconnect."""
        transport = consumer.task_consumer.channel.connection
        transport.serve(
            ServedWorker(
                name=consumer.hostname,
                slots=lambda: consumer.pool.num_processes - len(state.reserved_requests),
                measure=lambda: (len(state.active_requests), consumer.pool.num_processes),
                end=_end,
            )
        )
        keep_given(consumer.pool)
        begin_if_certain(consumer.pool)
        if conf.load().CELERY_HANDLERS:
            for queue, handler in sole_handlers().items():
                transport.consume_native(queue, NativeConsumer(handler, consumer, transport))

    def stop(self, consumer: Any) -> None:
        """Claim no more native messages."""
        if consumer.task_consumer is not None and consumer.task_consumer.channel.connection is not None:
            consumer.task_consumer.channel.connection.cancel_native()


def _end() -> None:
    """Have the worker end as TERM does: its loop looks at this each time round."""
    if not state.should_terminate:
        state.should_stop = EX_OK  # type: ignore[assignment] # the stubs know its first value only


def install(sender: Any, **_: Any) -> None:
    """Add the step to a worker that is about to be built; to one on another transport, nothing.

    Importing the native consumer has registered the task of all handlers with every app,
    before the pool is forked. Raises what a ``consumers.py`` raises, and ConfigurationError.
    """
    with sender.app.connection_for_read() as connection:
        transport = connection.transport
    if transport.driver_type != SCHEME:
        return
    if conf.load().CELERY_HANDLERS:
        check_transactions(sole_handlers().values(), transport.alias)
    forget_left()
    sender.app.steps["consumer"].add(MQStep)
    failures.connect(transport.alias)
    failures.cover_all(sender.app, transport.alias)
    revoking.install(transport.alias)
