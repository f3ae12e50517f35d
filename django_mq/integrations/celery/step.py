"""The worker step, which connects a Celery worker with the transport of its broker."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from functools import partial, wraps
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import bootsteps
from celery.platforms import EX_OK
from celery.signals import worker_process_shutdown
from celery.worker import state
from django.conf import settings

from django_mq import conf
from django_mq.bridges.queues import bridged_when_reachable, carried_by
from django_mq.bridges.queues import check_handled as check_bridged
from django_mq.bridges.receiving import receivers_of_process
from django_mq.conf import LONGEST_WAIT_SECONDS
from django_mq.delivery.consumer.handlers import Way, check_transactions, discover, notices_of
from django_mq.delivery.consumer.kinds import check_kinds
from django_mq.delivery.consumer.lease import Loop
from django_mq.delivery.operator.drift import log_differences
from django_mq.delivery.queues import check_handled
from django_mq.engine.decisions.receivers import Carrier
from django_mq.errors import ConfigurationError, SessionLost, StoreError
from django_mq.integrations.celery import failures, rates, revocation, runs
from django_mq.integrations.celery.deliveries import ServedWorker
from django_mq.integrations.celery.internals import keep_given, waiting_for_process
from django_mq.integrations.celery.loop_driver import forget_left
from django_mq.integrations.celery.native import NativeConsumer, NativeMessage, interrupted
from django_mq.integrations.celery.url import SCHEME
from django_mq.replies.reporter import REPORTER
from django_mq.stores.records import Running
from django_mq.stores.registry import MEMORY
from django_mq.supervisor.companion import Companion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.session import Session
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed, Receipt

logger = logging.getLogger("django_mq.celery")

#: How an error begins where the process beside the pool cannot be.
BESIDE = "Coroutine functions, handlers of many and several handlers of a queue run in a process of their own"


class MQStep(bootsteps.StartStopStep):
    """Tell the transport how many tasks could start now, and consume the queues of native handlers."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Connect the worker with its transport. Celery calls this again after each reconnect."""
        transport = consumer.task_consumer.channel.connection
        deliveries = transport.deliveries
        with transport.kept() as store:
            revocation.recall_stamps(store)
            has_rates = knows_rates(consumer.app, store)
        deliveries.serve(
            ServedWorker(
                name=consumer.hostname,
                slots=lambda: slots_of(consumer.pool) - len(state.reserved_requests),
                measure=lambda: (len(state.active_requests), slots_of(consumer.pool)),
                running=running,
                stop=partial(stop, consumer),
                end=_end,
                give_back=partial(give_back_waiting, consumer),
                loop=loop_of(consumer),
                rates=rates.rate_limits_of(consumer) if has_rates else None,
            )
        )
        keep_given(consumer.pool)
        begin_if_certain(consumer.pool)
        if conf.load().CELERY_HANDLERS:
            pooled, beside = divided(discover())
            deliveries.leave_native(beside)
            for handler in pooled:
                deliveries.consume_native(handler.queue, NativeConsumer(handler, consumer, deliveries))
            if pooled:
                named = ", ".join(f"{handler.name} of {handler.queue!r}" for handler in pooled)
                logger.info("This worker also runs the handlers %s", named)

    def stop(self, consumer: Any) -> None:
        """Stop claiming for native handlers."""
        if consumer.task_consumer is not None and consumer.task_consumer.channel.connection is not None:
            consumer.task_consumer.channel.connection.deliveries.cancel_native()


class CompanionStep(bootsteps.StartStopStep):
    """Run coroutine functions, handlers of many messages, and several handlers of a queue beside the pool.

    The main process forks others, and a coroutine that blocks would stop its heartbeat. A task of the pool has one
    message, by which it is revoked and shown, and one handler, which its child finds by the queue.
    """

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._companion: Companion | None = None

    def start(self, worker: Any) -> None:
        """Start the process."""
        with worker.app.connection_for_read() as connection:
            alias = connection.transport.alias
        self._companion = Companion(companion_command(alias, threads=most_slots(worker)), project_environment())
        self._companion.start()

    def stop(self, worker: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Wait for the handlers that run, unless the worker is told to end at once."""
        self._end(lambda: state.should_terminate not in (None, False))

    def terminate(self, worker: Any) -> None:  # noqa: ARG002 - as above
        """Cancel the handlers that run, and give their messages back."""
        self._end(lambda: True)

    def _end(self, is_urgent: Callable[[], bool]) -> None:
        companion, self._companion = self._companion, None
        if companion is not None:
            companion.stop(is_urgent=is_urgent)


def knows_rates(app: Any, store: Store) -> bool:
    """Whether the code gives a task a rate, or remote control has given one. Raises StoreError."""
    return any(task.rate_limit for task in app.tasks.values()) or bool(store.volatile.bindings(rates.TOLD))


def divided(known: Mapping[str, list[Handler]]) -> tuple[list[Handler], list[str]]:
    """Return the handlers that the pool runs, and the queues whose handlers run in the process beside it."""
    beside = {queue for queue, handlers in known.items() if [each.way for each in handlers] != [Way.THREADS]}
    # As mq_worker takes them.
    beside |= known.keys() & set(map(notices_of, beside))
    pooled = [handler for queue, [handler, *_] in known.items() if queue not in beside]
    return pooled, [queue for queue in known if queue in beside]


def most_slots(worker: Any) -> int:
    """Return how many tasks the pool runs at a time when it is as large as it may grow."""
    return max(1, worker.max_concurrency or slots_of(worker.pool))


def companion_command(alias: str, *, threads: int) -> list[str]:
    """Return the command line that runs the handlers beside the pool. Raises ConfigurationError."""
    _, queues = divided(discover())
    command = [sys.executable, "-P", "-m", "django", "mq_worker", "--queues", ",".join(queues)]
    command += ["--threads", str(threads), "--database", alias]
    # Another process runs the receivers of a Celery worker.
    return [*command, "--receivers", Carrier.NONE.value, "--stop-seconds", str(LONGEST_WAIT_SECONDS)]


class ReceiverStep(CompanionStep):
    """Receive from other brokers beside the pool, in a process that the main process does not fork."""

    def start(self, worker: Any) -> None:
        """Start the process."""
        with worker.app.connection_for_read() as connection:
            alias = connection.transport.alias
        command = [sys.executable, "-P", "-m", "django", "mq_receive", "--of", "celery", "--database", alias]
        self._companion = Companion(command, project_environment())
        self._companion.start()


class BridgeStep(CompanionStep):
    """Forward to other brokers beside the pool, in a process that the main process does not fork."""

    def start(self, worker: Any) -> None:
        """Start the process."""
        with worker.app.connection_for_read() as connection:
            alias = connection.transport.alias
        names = ",".join(carried_here(alias))
        command = [sys.executable, "-P", "-m", "django", "mq_worker", "--queues", names, "--database", alias]
        self._companion = Companion([*command, "--receivers", Carrier.NONE.value], project_environment())
        self._companion.start()


def carried_here(alias: str, handled: Collection[str] = ()) -> list[str]:
    """Return the queues that a Celery worker forwards to other brokers; wait while the database is away.

    Raises ConfigurationError, also for a queue that has both a bridge and one of these handlers.
    """
    if alias == MEMORY or not conf.load().BRIDGES:
        return []
    bridged = bridged_when_reachable(alias, threading.Event())
    check_bridged(handled, bridged)
    return sorted(carried_by(Carrier.CELERY, bridged))


def check_process(alias: str) -> None:
    """Raise ConfigurationError if no process beside this one can run handlers."""
    project_environment()
    if alias == MEMORY:
        raise ConfigurationError(f"{BESIDE}, which does not see queues in memory; use a database.")


def project_environment() -> dict[str, str]:
    """Return the environment in which another process has the same project. Raises ConfigurationError."""
    module = getattr(settings, "SETTINGS_MODULE", None)
    if not module:
        raise ConfigurationError(
            f"{BESIDE}, which imports the settings. Put the settings into a module, and name it in"
            " DJANGO_SETTINGS_MODULE."
        )
    path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
    return {**os.environ, "DJANGO_SETTINGS_MODULE": module, "PYTHONPATH": path}


def loop_of(consumer: Any) -> Loop:
    """Return the loop of a worker, and have it note the error that ends the worker's loop."""
    run = consumer.loop
    known: Loop | None = getattr(run, "loop", None)
    if known is not None:
        return known
    loop = Loop()

    @wraps(run)
    def watched(*args: Any) -> Any:
        try:
            return run(*args)
        except (*consumer.connection_errors, *consumer.channel_errors):
            raise  # Celery connects again
        except Exception as error:
            loop.fail(error)
            raise

    watched.loop = loop  # type: ignore[attr-defined]
    consumer.loop = watched
    return loop


def slots_of(pool: Any) -> int:
    """Return how many tasks the pool runs at a time: none once it has ended, when heartbeats still ask."""
    try:
        return int(pool.num_processes)
    except AttributeError:  # as the prefork pool answers then
        return 0


def give_back_waiting(consumer: Any, queues: Set[str]) -> None:
    """Give back, uncounted, the messages of tasks of these queues that wait, and let Celery forget the tasks.

    A task that was taken out never begins.
    """
    _take_out(consumer, lambda claimed: claimed.queue_name in queues)


def _take_out(consumer: Any, is_meant: Callable[[Claimed], bool]) -> None:
    """Give back the messages of tasks that wait; the session does not give back what was cancelled.

    In a prefork pool, only the worker's loop adds and takes tasks. Pools of threads and of green threads begin
    tasks by themselves, so that only rate limits make tasks wait there; the thread of Celery's timer may begin one
    at any moment.
    """
    for line, item, request in _waiting(consumer):
        message = request.message
        claimed = getattr(message, "claimed", None)  # None of a transient queue
        if claimed is None or not is_meant(claimed):
            continue
        channel, tag = message.channel, str(message.delivery_tag)
        # A message that was settled already, such as that of a revoked task, is not ours to give.
        if tag not in channel.qos:
            continue
        with suppress(ValueError):  # it has just begun
            line.remove(item)
            state.task_ready(request)
            if channel.qos.take(tag) is not None:
                message.session.release(claimed)


def running() -> list[Running]:
    """Return the tasks and handlers that run, those that run for longest first.

    The message of a task that is acknowledged while it runs is gone.
    """
    now, found = time.time(), []
    with suppress(RuntimeError):  # the worker's loop has just added one
        for request in list(state.active_requests):
            claimed = getattr(request.message, "claimed", None)
            if claimed is not None and request.time_start:
                name = request.message.handler.name if isinstance(request.message, NativeMessage) else request.name
                seconds = round(max(0.0, now - request.time_start), 3)
                begun = runs.begun(request, claimed) if request.acknowledged else None
                found.append(Running(claimed.id, claimed.claim, name, seconds, begun))
    return sorted(found, key=attrgetter("seconds"), reverse=True)


def stop(consumer: Any, receipts: Set[Receipt]) -> None:
    """Cancel the tasks and handlers of these claims: those that wait, and those that run, as ``revoke`` does.

    A handler that runs in this process, in a thread, is asked to end.
    """
    _take_out(consumer, lambda claimed: claimed.receipt in receipts)
    for request in list(state.reserved_requests):
        message = request.message
        claimed = getattr(message, "claimed", None)
        if claimed is None or claimed.receipt not in receipts or message.revoked or interrupted(claimed.receipt):
            continue
        message.revoked = True
        try:
            request.terminate(consumer.pool)
        except NotImplementedError:
            logger.warning("%s is cancelled and goes on: this pool cannot end what runs", request)


def _waiting(consumer: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the tasks that wait for a process or for their rate limit: where, as what, and the request."""
    for_process = waiting_for_process(consumer.controller.semaphore)
    for item in list(for_process):
        yield for_process, item, item[1][0]
    for bucket in list(consumer.task_buckets.values()):
        for item in list(bucket.contents if bucket else ()):
            yield bucket.contents, item, item[0]


# A task may begin only while its lease is certain.
#
# A pool of processes is given a task by the worker's loop when a process is free, after its ``before_events``. A
# pool of threads or green threads begins a task by itself.

#: Time between two tries to have the lease confirmed, in seconds.
PAUSE_SECONDS = 0.5


def begin_if_certain(pool: Any) -> None:
    """Make a pool of threads, once, confirm the lease before each task. A pool of processes stays as it is."""
    apply = pool.on_apply
    if pool.uses_semaphore or hasattr(apply, "confirms_lease"):
        return

    def on_apply(*args: Any, accept_callback: Any = None, **options: Any) -> Any:
        # The callback is a method of Celery's request, which has the message.
        message = getattr(getattr(accept_callback, "__self__", None), "message", None)
        session: Any = getattr(message, "session", None)

        def accept(*given: Any) -> None:
            # The pool calls this right before the task, in its thread. An error keeps the task from running.
            if not _may_begin(session):
                raise SessionLost
            accept_callback(*given)

        return apply(*args, accept_callback=accept_callback if session is None else accept, **options)

    on_apply.confirms_lease = True  # type: ignore[attr-defined]
    pool.on_apply = on_apply


def _may_begin(session: Session) -> bool:
    """Wait until the lease is certain; return False if the session has given the message back meanwhile."""
    while not (session.may_begin or session.lost or session.retired):
        try:
            session.ensure_certain()
        except SessionLost:
            return False
        except StoreError:
            time.sleep(PAUSE_SECONDS)  # the heartbeat logs the outage
    return not (session.lost or session.retired)


def _end() -> None:
    """End the worker as TERM does, at the next turn of its loop."""
    if not state.should_terminate:
        state.should_stop = EX_OK  # type: ignore[assignment] # the stubs know its first value only


def _show_in_banner(worker: Any, handlers: Iterable[Handler]) -> None:
    """Add the queues and their handlers to the banner of ``celery worker``, as Celery lists its tasks."""
    extra_info = getattr(worker, "extra_info", None)  # a worker that a program starts has no banner
    if extra_info is None:
        return
    lines = "\n".join(
        f"  . {handler.queue}: {handler.name}" for handler in sorted(handlers, key=attrgetter("queue"))
    )
    worker.extra_info = lambda: f"{extra_info() or ''}\n[handlers]\n{lines}\n"


def _write_progress(**_: object) -> None:
    """Write what handlers have reported last: a pool process ends without the functions of ``atexit``."""
    REPORTER.close()


def install(sender: Any) -> None:
    """Add the step to a worker that is about to be built, if its broker is ours.

    Importing the native consumer has registered the task of all handlers with every app, before the pool is
    forked. Raises SystemExit, which ends the worker, if the handlers or the middleware cannot be loaded.
    """
    with sender.app.connection_for_read() as connection:
        transport = connection.transport
    if transport.driver_type != SCHEME:
        return
    worker_process_shutdown.connect(_write_progress)
    try:
        conf.middleware()  # each message would fail in it
        if conf.load().CELERY_HANDLERS and (known := discover()):
            handlers = list(chain.from_iterable(known.values()))
            check_transactions(handlers, transport.alias)
            check_handled(known, using=transport.alias)
            check_kinds(handlers, using=transport.alias)
            _show_in_banner(sender, handlers)
            _, beside = divided(known)
            if beside:
                check_process(transport.alias)
                sender.app.steps["worker"].add(CompanionStep)
        if conf.load().RECEIVERS and receivers_of_process(transport.alias, Carrier.CELERY):
            project_environment()
            sender.app.steps["worker"].add(ReceiverStep)
        if carried_here(transport.alias, discover() if conf.load().CELERY_HANDLERS else ()):
            project_environment()
            sender.app.steps["worker"].add(BridgeStep)
        if conf.load().QUEUES:
            log_differences(None, using=transport.alias)
    except Exception as error:
        # Celery logs any other exception of a signal's receiver and goes on, here without the step.
        why = f"{type(error).__name__}: {error}"
        why = f"The worker does not start, its handlers, bridges or middleware cannot be loaded: {why}"
        logger.critical(why, exc_info=True)
        raise SystemExit(why) from error
    forget_left()
    sender.app.steps["consumer"].add(MQStep)
    failures.connect(transport.alias)
    runs.connect()
    failures.cover_all(sender.app, transport.alias)
    revocation.install(transport.alias)
    revocation.extend(rates.NAME, "task_name", partial(rates.change, transport.alias))
