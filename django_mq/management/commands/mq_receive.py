"""Receive from the queues of other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.bridges.receiving import receivers_on, receiving
from django_mq.delivery.consumer.garbage_collector import collect_less_often
from django_mq.delivery.consumer.handlers import discover
from django_mq.engine.decisions.receivers import CARRIERS, Carrier
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand, until_told
from django_mq.management.processes import show_log
from django_mq.stores.registry import shared_store
from django_mq.supervisor.child import Report, SupervisorLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.receivers import Receiver

#: Time between two looks whether the process that started this one has ended, in seconds.
LOOK_SECONDS = 0.5


class Command(MQCommand):
    help = (
        "Receive from the queues of other brokers that DJANGO_MQ['RECEIVERS'] names, until TERM or INT. "
        "Workers do this, too, as the option 'workers' of each receiver says."
    )
    arguments: ClassVar = (
        argument("names", nargs="*", metavar="NAME", help="The receivers; default: all of this database."),
        argument(
            "--of",
            choices=CARRIERS,
            help="Only those that such a process runs; a Celery worker starts the command with celery.",
        ),
        argument("--until-empty", action="store_true", help="End when the queues of the other brokers are empty."),
    )
    json = ""

    def run(self, alias: str, **options: Any) -> None:
        line = SupervisorLine.take()
        show_log()
        discover()  # of direct receivers
        chosen = _chosen(receivers_on(alias), options["names"], options["of"])
        stopping = until_told()
        collect_less_often()
        shared_store(alias).database.disconnect()  # the receivers have connections of their own
        with receiving(chosen, alias, until_empty=options["until_empty"]) as receivers:
            named = ", ".join(f"{each.name} from {each.source!r} into {each.queue or 'queues'}" for each in chosen)
            self.stdout.write(f"Receiving {named} of database {alias!r}.")
            self.stdout.flush()
            while not (stopping.wait(LOOK_SECONDS) or receivers.is_over):
                if line is not None:
                    line.report(Report.READY)
                    if line.is_cut:
                        break
        self.stdout.write("Ended.")


def _chosen(known: Sequence[Receiver], names: Sequence[str], of: str | None) -> list[Receiver]:
    if unknown := [repr(name) for name in names if name not in {each.name for each in known}]:
        there = ", ".join(each.name for each in known) or "none"
        raise CommandError(f"There is no receiver {', '.join(unknown)} of this database; there are: {there}.")
    chosen = [each for each in known if not names or each.name in names]
    chosen = [each for each in chosen if of is None or each.workers in (Carrier.ALL.value, of)]
    if not chosen:
        raise CommandError("There is nothing to receive; declare it in DJANGO_MQ['RECEIVERS'].")
    return chosen
