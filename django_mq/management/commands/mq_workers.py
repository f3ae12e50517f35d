"""Show the worker sessions and their consumers, and tell them what to do."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.management.base import CommandError

from django_mq.delivery.operator.commands import send_command
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.fleet import fleet
from django_mq.engine.worker_mode import WorkerMode
from django_mq.management.arguments import UsageError, add_json
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable, shortened, span, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django_mq.diagnosis.state.fleet import Worker

HEADINGS = (
    "ID",
    "NAME",
    "KIND",
    "PID",
    "VERSION",
    "QUEUES",
    "HELD",
    "CREDIT",
    "BUSY",
    "MEMORY",
    "UP",
    "LAST BEAT",
    "",
)
MEBIBYTE = 1024**2


class Command(MQCommand):
    help = (
        "Show the worker sessions as of their last heartbeat: what they take from, hold and may hold. "
        "Or tell some what to do, by their names or ids: they follow at once, or with their next heartbeat."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--queue", metavar="QUEUE", help="Only those that take from it.")
        parser.add_argument("--stale", action="store_true", help="Only those past their deadline.")
        told = parser.add_mutually_exclusive_group()
        told.add_argument("--quiet", nargs="+", metavar="NAME", help="Tell these to claim no more.")
        told.add_argument("--work", nargs="+", metavar="NAME", help="Tell these to go on.")
        told.add_argument("--stop", nargs="+", metavar="NAME", help="Tell these to end after what they are doing.")
        told.add_argument(
            "--credit",
            nargs="+",
            metavar=("N", "NAME"),
            help="Give each consumer of these this credit, as long as the session lasts; 0 = its own again.",
        )
        add_json(parser, what="a JSON array, consumers included")

    def run(self, alias: str, **options: Any) -> None:
        told = _told(options)
        if told is not None:
            self._tell(told, alias, as_json=options["json"])
            return
        workers = [worker for worker in fleet(using=alias) if _is_wanted(worker, **options)]
        if options["queue"] and not workers:
            # A worker may take from a queue that has been deleted; a typing error is said to be one.
            check_names([options["queue"]], using=alias)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(worker) for worker in workers], indent=2))
        elif workers:
            self.stdout.write(table(HEADINGS, map(_row, workers), right=(0, 3, 6, 7, 8, 9)))
        else:
            self.stdout.write("There is no such worker session.")

    def _tell(self, told: Told, alias: str, *, as_json: bool) -> None:
        chosen = [worker for worker in fleet(using=alias) if {worker.name, str(worker.id)} & set(told.names)]
        known = {name for worker in chosen for name in (worker.name, str(worker.id))}
        missing = [name for name in told.names if name not in known]
        if missing:
            raise CommandError(f"There is no worker session {', '.join(map(repr, missing))}; see mq_workers.")
        names = [
            worker.name
            for worker in chosen
            if send_command(worker.id, mode=told.mode, credit=told.credit, using=alias)
        ]
        if as_json:
            self.stdout.write(json.dumps({"told": names}))
        else:
            self.stdout.write(f"Told: {', '.join(map(printable, names))}.")


class Told(NamedTuple):
    """What the command line tells whom."""

    names: list[str]
    mode: WorkerMode | None = None
    credit: int | None = None


def _told(options: dict[str, Any]) -> Told | None:
    """Return what is to be told; None where the workers are only to be shown."""
    for mode in WorkerMode:
        if names := options[mode.value]:
            return Told(names, mode=mode)
    if not options["credit"]:
        return None
    number, *names = options["credit"]
    if not number.isdecimal() or not names:
        raise UsageError("--credit takes a number from 0, and names of workers: --credit 5 NAME.")
    return Told(names, credit=int(number))


def _is_wanted(worker: Worker, *, queue: str | None, stale: bool, **_: Any) -> bool:
    return (queue is None or queue in worker.queues) and (worker.stale or not stale)


def _row(worker: Worker) -> tuple[str, ...]:
    return (
        str(worker.id),
        worker.name,
        worker.kind,
        str(worker.pid),
        worker.version,
        shortened(",".join(worker.queues), 40),
        f"{worker.held:,}",
        f"{worker.credit:,}" if worker.credit else "-",
        f"{worker.busy}/{worker.slots}" if worker.slots else "-",
        f"{worker.memory_bytes / MEBIBYTE:,.0f} M" if worker.memory_bytes else "-",
        span(worker.up_seconds),
        span(worker.heartbeat_seconds),
        _remark(worker),
    )


def _remark(worker: Worker) -> str:
    if worker.stale:
        return "stale"
    words = [] if worker.conduct == WorkerMode.WORK else [f"told: {worker.conduct}"]
    if worker.given_credit:
        words.append(f"credit {worker.given_credit:,} each")
    return ", ".join(words)
