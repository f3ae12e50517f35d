"""Run the tasks of Celery that a drain takes, in the thread of the test.

The request of a task is Celery's own, so acknowledgements, retries, time to live, signals and results are those of
Celery. Only the pool is another one: it runs the task at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from celery import Celery, current_app
from celery.concurrency.base import apply_target
from celery.exceptions import Reject, TaskPredicate, TaskRevokedError
from kombu.message import Message
from kombu.serialization import prepare_accept_content
from kombu.utils.imports import symbol_by_name

from django_mq.delivery.consumer.attempt import named
from django_mq.engine.decisions.verdict import ACCEPT, RETURNED
from django_mq.errors import UnknownTask
from django_mq.integrations.celery import attempts, failures
from django_mq.integrations.celery.message import judged, payload_of, rejected
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django_mq.engine.decisions.verdict import Policy
    from django_mq.stores.records import Claimed, Settlement


class TaskRun(NamedTuple):
    """How the run of a task has ended."""

    settlement: Settlement
    #: As of a handler; or "failed": Celery acknowledges a task that has failed. Or "revoked": it has not run.
    outcome: str
    error: BaseException | None = None

    @property
    def is_choice(self) -> bool:
        """Whether the task has asked for this outcome: ``Retry``, ``Reject`` or ``Ignore``."""
        return isinstance(self.error, TaskPredicate)


class PoolAtOnce:
    """Runs a task when it is given one, and keeps the result."""

    error: BaseException | None = None

    def apply_async(self, target: Any, args: Any = (), *, callback: Callable[[Any], Any], **options: Any) -> None:
        """Run a task as Celery's pool of one thread does."""

        def note(result: Any) -> None:
            has_failed, value, _ = result
            if has_failed:
                self.error = getattr(value.exception, "exc", value.exception)
            callback(result)

        apply_target(target, args, callback=note, **options)


@contextmanager
def moved_celery() -> Iterator[None]:
    """Let Celery count ``countdown`` and ``expires`` from the clock of the queues."""
    now = Celery.now
    with patch.object(Celery, "now", lambda app: now(app) + clock.offset):
        yield


def consumed() -> Sequence[str]:
    """Return the queues that Celery's workers consume if they are told nothing else."""
    return [*current_app.amqp.queues.consume_from]


def run_task(claimed: Claimed, policy: Policy, alias: str) -> TaskRun:
    """Run the task of a message, and return how to settle the message."""
    app: Any = current_app
    if claimed.type not in app.tasks:
        app.loader.import_default_modules()
    settlements: list[Settlement] = []

    def on_ack(*_: Any) -> None:
        settlements.append(judged(claimed, RETURNED, policy))

    def on_reject(_log: Any, _errors: Any, requeue: bool = False) -> None:
        settlements.append(rejected(claimed, policy, "", requeue=requeue))

    try:
        request = _request_of(claimed, app, alias)(on_ack=on_ack, on_reject=on_reject)
    except Exception as error:  # noqa: BLE001 - a message that cannot be received must not end the drain
        return TaskRun(rejected(claimed, policy, str(error), requeue=False), "dead", error)
    pool = PoolAtOnce()
    try:
        request.execute_using_pool(pool)
    except TaskRevokedError:
        return TaskRun(settlements[0], "revoked")
    settlement = settlements[0]
    if settlement.verdict is ACCEPT:
        # A task that was acknowledged when it began has rejected nothing.
        outcome = "failed" if isinstance(pool.error, Reject) else attempts.outcome(pool.error)
        return TaskRun(settlement, outcome, pool.error)
    return TaskRun(settlement, named(settlement.verdict, counted=settlement.counted), pool.error)


def _request_of(claimed: Claimed, app: Any, alias: str) -> Callable[..., Any]:
    """Return what makes the request of the task. Raises UnknownTask."""
    message = _message_of(claimed, app)
    name = message.headers.get("task")
    if name not in app.tasks:
        raise UnknownTask(f"unknown task {name}" if name else "the message names no task, and no handler takes it")
    task = app.tasks[name]
    failures.cover(task, alias)
    return partial(symbol_by_name(task.Request), message, app=app, task=task)


def _message_of(claimed: Claimed, app: Any) -> Message:
    session: Any = None
    payload = payload_of(claimed, session, priority=claimed.priority)
    properties, headers = payload["properties"], payload["headers"]
    if expires := headers.get("expires"):
        # Celery compares it with the clock of the machine, which tests do not move.
        headers = headers | {"expires": (datetime.fromisoformat(expires) - clock.offset).isoformat()}
    return Message(
        body=payload["body"],
        content_type=payload["content-type"],
        content_encoding=payload["content-encoding"],
        headers=headers,
        properties=properties,
        delivery_info=properties["delivery_info"],
        delivery_tag=properties["delivery_tag"],
        accept=prepare_accept_content(app.conf.accept_content),
    )
