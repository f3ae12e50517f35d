"""Run the native handlers of queues in threads."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq import conf
from django_mq.bridges.declared import bridge_named, shown_address
from django_mq.bridges.queues import bridged_when_reachable, by_bridge, carried_by
from django_mq.bridges.queues import check_handled as check_bridged
from django_mq.bridges.receiving import receivers_of_process, receiving
from django_mq.bridges.worker import BridgeWorker
from django_mq.bulk.pool import pool_for
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.delivery.consumer.handlers import Way, discover, notices_of
from django_mq.delivery.consumer.kinds import by_worker, check_kinds
from django_mq.delivery.consumer.pool import Pool
from django_mq.delivery.consumer.worker import Worker, Workers
from django_mq.delivery.operator.drift import log_differences
from django_mq.delivery.queues import check_handled
from django_mq.engine.decisions.receivers import Carrier
from django_mq.formats import plural
from django_mq.management.arguments import argument, at_least_one
from django_mq.management.command import MQCommand, on_signals, until_signalled
from django_mq.management.processes import ARGUMENTS, monitor_of, run_processes, show_log, watching
from django_mq.stores.registry import shared_store
from django_mq.supervisor.monitor import BROKER_AWAY, LEFT_EARLY
from django_mq.supervisor.reload import is_reloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.delivery.consumer.pool import MakePool
    from django_mq.supervisor.child import SupervisorLine
    from django_mq.supervisor.monitor import Monitor


class Command(MQCommand):
    help = (
        "Consume queues with the handlers of the apps' consumers.py. TERM or INT ends the worker after the "
        "running messages. A second signal ends it at once and gives these messages back."
    )
    exit_codes: ClassVar = {
        0: "ended in order",
        1: "an error, or handlers did not end at their time limit, or after their messages were cancelled",
        LEFT_EARLY: "ended at once",
        BROKER_AWAY: "with --until-empty: the broker of a bridge is away, and messages may wait for it",
    }

    arguments: ClassVar = (
        argument("--queues", help="Comma-separated names; default: every queue that has a handler."),
        argument("--exclude", metavar="QUEUES", help="Comma-separated names of queues to leave out."),
        argument(
            "--threads", type=at_least_one, default=4, help="How many messages are handled at a time; default: 4."
        ),
        argument(
            "--credit-bytes",
            type=at_least_one,
            help="How many bytes of bodies to hold at most for each handler that names no number; "
            "default: the setting CREDIT_BYTES.",
        ),
        argument(
            "--async-slots",
            type=at_least_one,
            help="How many messages are handled at a time by handlers that are coroutine functions; "
            "default: the setting ASYNC_SLOTS.",
        ),
        argument(
            "--async-threads",
            type=at_least_one,
            help="How many of these may use the database at a time; default: the setting ASYNC_THREADS.",
        ),
        argument("--name", default="", help="The name that the admin shows; default: native@HOST:PID."),
        argument(
            "--receivers",
            choices=(Carrier.MQ_WORKER.value, Carrier.NONE.value),
            default=Carrier.MQ_WORKER.value,
            help="Which receivers of other brokers' messages to run: those of mq_worker, the default, or none.",
        ),
        argument("--until-empty", action="store_true", help="End when no message can be delivered and none runs."),
        *ARGUMENTS,
    )
    json = ""

    def run(self, alias: str, **options: Any) -> None:
        show_log()
        run_processes(self, options, lambda line: self._work(alias, line, options))

    def _work(self, alias: str, line: SupervisorLine | None, options: dict[str, Any]) -> None:
        """Run the workers of this process until it ends."""
        with until_signalled() as stopping:
            bridged = bridged_when_reachable(alias, stopping)
        if stopping.is_set():
            self.stdout.write("Ended.")
            return
        if options["queues"] is None:
            bridged = carried_by(Carrier.MQ_WORKER, bridged)
        handlers, bridged = _chosen(options["queues"], options["exclude"], bridged)
        queues = [handler.queue for handler in handlers]
        check_bridged(queues, bridged)
        check_handled(queues, using=alias)
        check_kinds(handlers, using=alias)
        log_differences(queues, using=alias)
        name = f"{options['name']}-{line.number}" if line and options["name"] else options["name"]
        monitor = monitor_of(options, line)
        handling = list(self._workers(handlers, alias, {**options, "name": name}, monitor))
        forwarding = list(self._bridges(bridged, alias, name))
        workers = Workers([*handling, *forwarding])
        signals = _Signals(self, workers, supervised=line is not None)
        self.stdout.flush()
        collect_less_often()
        shared_store(alias).database.disconnect()  # the workers have connections of their own
        received = [] if options["until_empty"] else receivers_of_process(alias, Carrier(options["receivers"]))
        with watching(monitor, workers, options), receiving(received, alias) as receivers:
            signals.also(receivers.stop)
            workers.run(until_empty=options["until_empty"])
        self.stdout.write("Ended.")
        if signals.at_once or monitor.has_hurried:
            raise SystemExit(LEFT_EARLY)
        if given_up := [worker.given_up for worker in forwarding if worker.given_up]:
            raise CommandError(" ".join(given_up), returncode=BROKER_AWAY)

    def _workers(
        self, handlers: list[Handler], alias: str, options: dict[str, Any], monitor: Monitor
    ) -> Iterator[Worker]:
        """Make a worker for each way of running that the handlers need, and print what it consumes."""
        for own, slots, pool, how in _pools(handlers, options):
            worker = Worker(
                own,
                threads=slots,
                pool=monitor.limit(pool),
                of_process=handlers,
                using=alias,
                name=options["name"],
                credit_bytes=options["credit_bytes"],
                is_replaced=monitor.line is not None,
            )
            taken = ", ".join(
                f"{handler.queue}{_where(handler)} (credit {_credit_of(handler, slots, options)})"
                for handler in own
            )
            self.stdout.write(f"{worker.session.name} consumes {taken} of database {alias!r} with {how}.")
            yield worker

    def _bridges(self, bridged: dict[str, str], alias: str, name: str) -> Iterator[BridgeWorker]:
        """Make a worker for each bridge, and print what it empties."""
        for bridge_name, queues in by_bridge(bridged).items():
            bridge = bridge_named(bridge_name)
            worker = BridgeWorker(bridge, queues, using=alias, name=name)
            self.stdout.write(
                f"{worker.session.name} forwards {', '.join(queues)} of database {alias!r}"
                f" through the bridge {bridge_name!r} to {shown_address(bridge)}."
            )
            yield worker


class _Signals:
    """End the workers in order at the first TERM or INT, and at once at the second.

    Another signal after that has the default effect of the system. With a supervisor, only INT means at once: a
    service manager may send TERM to all processes, and the supervisor sends another one.
    """

    def __init__(self, command: MQCommand, workers: Workers, *, supervised: bool) -> None:
        self._command = command
        self._workers = workers
        self._supervised = supervised
        self._count = 0
        self.at_once = False
        self._others: list[Callable[[], None]] = []
        if not is_reloaded():
            on_signals(self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._count += 1
        self.at_once = self.at_once or (number == signal.SIGINT if self._supervised else self._count > 1)
        if self.at_once:
            signal.signal(number, signal.SIG_DFL)
        elif self._count == 1:
            running = self._workers.running
            self._command.stdout.write(
                f"Ending: waiting for {plural(running, 'handler')}; a second signal gives the messages back."
                if running
                else "Ending."
            )
        self._workers.stop(at_once=self.at_once)
        for stop in self._others:
            stop()

    def also(self, stop: Callable[[], None]) -> None:
        """Call this, too."""
        self._others.append(stop)


def _pools(handlers: list[Handler], options: dict[str, Any]) -> Iterator[tuple[list[Handler], int, MakePool, str]]:
    """Yield the handlers of each worker, the slots of its pool, what makes the pool, and words for both."""
    for own in by_worker(handlers):
        first = own[0]
        if first.way is Way.THREADS:
            yield own, options["threads"], Pool, plural(options["threads"], "thread")
        elif first.way is Way.EVENT_LOOP:
            slots = options["async_slots"] or conf.load().ASYNC_SLOTS
            threads = options["async_threads"] or conf.load().ASYNC_THREADS
            yield own, slots, partial(EventLoopPool, threads=threads), plural(slots, "async slot")
        else:
            yield own, first.bulk, pool_for(first), f"up to {plural(first.bulk, 'message')} at a time"


def _where(handler: Handler) -> str:
    return f" where {handler.selector}" if handler.selector else ""


def _chosen(
    queues: str | None, exclude: str | None, bridged: dict[str, str]
) -> tuple[list[Handler], dict[str, str]]:
    """Return the handlers, and the queues with a bridge, that the options name. Raises CommandError."""
    handled = discover()
    known = [*handled, *(name for name in bridged if name not in handled)]
    if not known:
        where = "in the consumers.py of an app of INSTALLED_APPS"
        raise CommandError(f"No handler is registered; decorate one with @consumer {where}.")
    names = known if queues is None else _names(queues)
    excluded = [] if exclude is None else _names(exclude)
    missing = [repr(name) for name in [*names, *excluded] if name not in known]
    if missing:
        raise CommandError(f"No handler for {', '.join(missing)}; there are handlers for {', '.join(known)}.")
    # The functions that are called when messages of a queue die go with its handlers.
    names = list(dict.fromkeys(each for name in names for each in (name, notices_of(name)) if each in known))
    excluded += [notices_of(name) for name in excluded]
    left = [name for name in names if name not in excluded]
    if not left:
        raise CommandError(f"--exclude {exclude} leaves no queue to consume.")
    chosen = [handler for name in left for handler in handled.get(name, ())]
    return chosen, {name: bridged[name] for name in left if name in bridged}


def _names(text: str) -> list[str]:
    """Return the names in a list with commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _credit_of(handler: Handler, slots: int, options: dict[str, Any]) -> str:
    credit, bytes_ = handler.credit_with(slots), handler.bytes_with(options["credit_bytes"])
    return str(credit) if bytes_ is None else f"{credit}, {bytes_} bytes"
