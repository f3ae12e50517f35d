"""Show the worker sessions and their consumers, and send them commands."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django.core.management.base import CommandError

from django_mq.delivery.operator.commands import send_command
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.fleet import fleet
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.management.arguments import UsageError, argument, one_of
from django_mq.management.command import MQCommand
from django_mq.management.tables import WORKER_HEADINGS, printable, table, worker_cells


def _names(flag: str, words: str, metavar: Any = "NAME") -> Any:
    return argument(flag, nargs="+", metavar=metavar, help=words)


class Command(MQCommand):
    help = (
        "Show the worker sessions as of their last heartbeat: what they consume, hold and may hold. Or send "
        "some a command, by their names or ids: they follow at once, or with their next heartbeat."
    )
    arguments: ClassVar = (
        argument("--queue", metavar="QUEUE", help="Only sessions that consume this queue."),
        argument("--stale", action="store_true", help="Only sessions past their deadline."),
        one_of(
            _names("--quiet", "Have these claim no more."),
            _names("--work", "Have these continue."),
            _names("--stop", "Have these end after their running messages."),
            _names(
                "--credit",
                "Give each consumer of these this credit, until the session ends; 0 = its own again.",
                ("N", "NAME"),
            ),
        ),
    )
    json = "a JSON array, consumers included"

    def run(self, alias: str, **options: Any) -> None:
        for mode in WorkerMode:
            if names := options[mode.value]:
                self._send(names, alias, mode=mode)
                return
        if options["credit"]:
            number, *names = options["credit"]
            if not number.isdecimal() or not names:
                raise UsageError("--credit takes a number from 0, and names of workers: --credit 5 NAME.")
            self._send(names, alias, credit=int(number))
            return
        self._show(alias, options["queue"], stale=options["stale"])

    def _show(self, alias: str, queue: str | None, *, stale: bool) -> None:
        workers = [worker for worker in fleet(using=alias) if worker.stale or not stale]
        if queue is not None:
            workers = [worker for worker in workers if queue in worker.queues]
            if not workers:
                # A worker may consume a deleted queue; a mistyped name is an error.
                check_names([queue], using=alias)
        text = "There are no worker sessions to show."
        if workers:
            text = table(WORKER_HEADINGS, map(worker_cells, workers), right=(0, 3, 6, 7, 8, 9))
        self.answer([asdict(worker) for worker in workers], text)

    def _send(self, names: list[str], alias: str, **command: Any) -> None:
        chosen = [worker for worker in fleet(using=alias) if {worker.name, str(worker.id)} & set(names)]
        known = {name for worker in chosen for name in (worker.name, str(worker.id))}
        missing = [name for name in names if name not in known]
        if missing:
            raise CommandError(f"There is no worker session {', '.join(map(repr, missing))}; see mq_workers.")
        told = [worker.name for worker in chosen if send_command(worker.id, **command, using=alias)]
        self.note(alias, "workersession", str(command.get("mode", "limit")), told, answers=command)
        self.answer({"told": told}, f"Told: {', '.join(map(printable, told))}.")
