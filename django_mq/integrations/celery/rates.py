"""Celery's ``rate_limit`` of a task, which holds over all workers.

Celery keeps a bucket for each task in each worker, where received messages wait. Here the rate is a limit by key
of the queue, so that what is over it waits in the database. The queues to which a task is routed have the limit,
and others from its first message on: a queue without such tasks is claimed from as before. What ``celery control
rate_limit`` says is an exception of the limit: a row, which each claim reads.

A worker none of whose tasks has a rate has none of this, until remote control gives one. Workers that start later
learn from a mark that it has: a binding, as revoked stamps are.

Celery's own bucket stays for rates that are none here, and in workers of a queue that has no limits by key.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from celery.utils.time import rate as per_second

from django_mq.engine.decisions.keyed_limits import Allowed, Throttle, told_apart
from django_mq.engine.decisions.rates import Rate
from django_mq.errors import OutOfRange, StoreError
from django_mq.integrations.celery.attempts import DELIVER
from django_mq.limits.declared import RATES_OF_TASKS, declare, withdraw
from django_mq.notifications.base import queue_topic
from django_mq.notifications.registry import notifier
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.engine.decisions.keyed_limits import LimitFacts
    from django_mq.engine.options import QueueOptions

logger = logging.getLogger("django_mq.celery")

#: The command of remote control, and the name of the limits.
NAME: Final = RATES_OF_TASKS
#: What stands for no limit, where the code or remote control has none: an exception is a number.
LIFTED: Final = Rate(1_000_000, 1.0, burst=1_000_000)
#: The exchange whose binding says that remote control has given a task a rate, and for how long, in seconds.
TOLD: Final = "amq.rate-limits"
TOLD_SECONDS: Final = 10 * 365 * 86_400.0
#: Celery's units.
SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def rate_of(given: Any) -> Rate | None:
    """Return a rate as Celery reads it; None for no limit. Raises OutOfRange."""
    if not per_second(given):
        return None
    amount, _, unit = str(given).partition("/")
    return Rate(float(amount), SECONDS[unit])


def why_not(options: QueueOptions) -> str | None:
    """Return why a queue with these options cannot limit a task; None if it can."""
    return Throttle(name=NAME, rate=LIFTED, type="task").problem_in(options)


def queue_of(app: Any, task: Any) -> str | None:
    """Return the queue to which the app routes a task that is sent without arguments; None if it cannot say."""
    given = {"queue": task.queue} if getattr(task, "queue", None) else {}
    try:
        queue = app.amqp.router.route(given, task.name)["queue"]
    except Exception:  # noqa: BLE001 - of the project's own routers
        return None
    return str(getattr(queue, "name", queue))


class RateLimits:
    """The rate limits of the tasks of one worker."""

    def __init__(self, consumer: Any) -> None:
        self._consumer, self._bucket = consumer, consumer.bucket_for_task
        # The rates of the code by task, and LIFTED for a task that only has an exception.
        self._rates: dict[str, Rate] = {}
        # The tasks that keep Celery's bucket.
        self._kept: set[str] = {DELIVER}
        # The consumed queues, and why some can have no limits.
        self._options: dict[str, QueueOptions] = {}
        self._refused: Mapping[str, str] = {}
        # The tasks that are limited, by their queues. Other queues are claimed from as if there were no limit.
        self._limited: dict[str, set[str]] = {}
        for name, task in consumer.app.tasks.items():
            try:
                rate = rate_of(task.rate_limit)
            except OutOfRange as error:
                self._keep(name, error)
            else:
                self._rates |= {} if rate is None or name == DELIVER else {name: rate}
        consumer.bucket_for_task = self.bucket_for_task

    @property
    def _transport(self) -> Any:
        return self._consumer.task_consumer.channel.connection

    def _begin(self) -> None:
        """Hold the rates of a worker that had none when it started. Raises StoreError."""
        deliveries = self._transport.deliveries
        if deliveries.worker.rates is None:
            deliveries.serve(replace(deliveries.worker, rates=self))

    def _keep(self, task: str, error: OutOfRange) -> None:
        self._kept.add(task)
        logger.warning("The rate limit of the task %r holds for each worker apart: %s", task, error)

    def bucket_for_task(self, task: Any) -> Any:
        """Return Celery's bucket for a task whose rate cannot hold over all workers; None for others."""
        is_global = task.name in self._rates and task.name not in self._kept
        return None if is_global and not self._refused else self._bucket(task)

    def follow(self, queues: Mapping[str, QueueOptions]) -> None:
        """Take note of the queues whose tasks are consumed now. Raises StoreError."""
        for queue in self._options.keys() - queues.keys():
            del self._options[queue]
            if self._limited.pop(queue, None):
                withdraw(queue, NAME)
        for queue in sorted(queues.keys() - self._options.keys()):
            with self._transport.kept() as store:
                self._read(queue, store.rates.facts(queue))
            self._options[queue] = queues[queue]
        self._limit()

    def _read(self, queue: str, facts: LimitFacts) -> None:
        """Take note of the tasks that have an exception, and of those that other workers have limited there."""
        self._limited[queue] = set()
        allowed, used = ({key for limit, key in places if limit == NAME} for places in (facts.allowed, facts.used))
        for task in self._consumer.app.tasks if allowed or used else ():
            if told_apart(task) in allowed:
                self._rates.setdefault(task, LIFTED)
            if told_apart(task) in used:
                self._limited[queue].add(task)

    def _limit(self) -> None:
        """Limit the tasks with rates in the queues where they are known to come."""
        app, known = self._consumer.app, self._refused
        self._refused = {
            queue: why
            for queue, options in (self._options.items() if self._rates else ())
            if (why := why_not(options)) is not None
        }
        for queue in self._refused.keys() - known.keys():
            logger.warning(
                "Rate limits of tasks hold for this worker apart, which consumes the queue %r. %s",
                queue,
                self._refused[queue],
            )
        for task in self._rates:
            routed = queue_of(app, app.tasks[task])
            if routed in self._options:
                self._limited[routed].add(task)
        for queue in self._options.keys() - self._refused.keys():
            for task in (self._limited[queue] & self._rates.keys()) - self._kept:
                try:
                    declare(queue, Throttle(name=NAME, rate=self._rates[task], type=task))
                except OutOfRange as error:
                    self._keep(task, error)
        self._consumer.reset_rate_limits()

    def begins(self, queue: str, task: str) -> bool:
        """Return whether this is the first message of a task with a rate in its queue, which is limited then.

        Its claim has not asked the limit.
        """
        if task not in self._rates or task in self._kept or task in self._limited.get(queue, self._rates):
            return False
        self._limited[queue].add(task)
        self._limit()
        return task not in self._kept and queue not in self._refused

    def change(self, task: Any, alias: str) -> Mapping[str, str] | None:
        """Let the present rate of a task hold in all workers; return Celery's answer if it cannot."""
        try:
            rate = rate_of(task.rate_limit)
        except OutOfRange as error:
            self._keep(task.name, error)
            return None
        if task.name in self._kept or (rate is None and task.name not in self._rates):
            return None
        self._rates.setdefault(task.name, LIFTED)
        store = private_store(alias)
        try:
            self._begin()
            store.volatile.bind(
                exchange=TOLD, exchange_type="direct", pattern="", queue=TOLD, seconds=TOLD_SECONDS
            )
            for queue in sorted(self._options):
                store.rates.allow(queue, NAME, told_apart(task.name), Allowed(rate or LIFTED))
        except StoreError as error:
            logger.warning("The rate limit of the task %r stays as it was: %s", task.name, error)
            return {"error": f"The rate limit stays as it was: {error}"}
        else:
            self._limit()
            notifier().send({*map(queue_topic, self._options)}, over=store)
        finally:
            store.close()
        return None


def rate_limits_of(consumer: Any) -> RateLimits | None:
    """Return the rate limits of a worker, the same after each reconnect; None where Celery's own are to hold.

    The first protocol of Celery names the task in the body only.
    """
    known = getattr(consumer.bucket_for_task, "__self__", None)
    if isinstance(known, RateLimits):
        return known
    if consumer.disable_rate_limits or consumer.app.conf.task_protocol == 1:
        return None
    return RateLimits(consumer)


def change(alias: str, state: Any, task_name: str) -> Mapping[str, str] | None:
    """Let a rate that remote control gave a task hold in all workers; return Celery's answer if it cannot."""
    limits = rate_limits_of(state.consumer)
    return None if limits is None else limits.change(state.app.tasks[task_name], alias)
