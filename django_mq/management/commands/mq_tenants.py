"""Show the tenants with most messages, failures or time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.formats import PLAIN
from django_mq.management.arguments import argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import shortened, table
from django_mq.tenants.declared import queues_with, tenant_key
from django_mq.tenants.figures import MEASURES, SPANS, top_tenants

if TYPE_CHECKING:
    from django_mq.tenants.figures import TenantFigures, TopTenants

#: The most characters of a name in the table. JSON has all.
LONGEST = 60
HEADINGS = ("FINISHED", "WAITING", "FAILED", "DIED", "WAIT 95 %", "HELD IN ALL")
#: What the option --by calls the measures.
NAMES = dict(zip(("finished", "waiting", "failed", "died", "wait", "held"), MEASURES, strict=True))


class Command(MQCommand):
    help = (
        "Show the tenants with most messages, failures or time: the values of the search key that the setting "
        "TENANT_KEY names. Workers sum them up each minute."
    )
    exit_codes: ClassVar = {1: "refused: no search key names the tenants, or there is no such queue"}
    arguments: ClassVar = (
        argument("queue", metavar="QUEUE", nargs="?", help="Only of this queue."),
        argument("--span", choices=[*SPANS], default="hour", help="How far back to look; default: hour."),
        argument("--by", choices=[*NAMES], default="finished", help="What comes first; default: finished."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to show; default: 20."),
    )

    def run(self, alias: str, **options: Any) -> None:
        key = tenant_key()
        if key is None:
            raise CommandError("No search key names the tenants: set TENANT_KEY in DJANGO_MQ.")
        check_names([options["queue"]] if options["queue"] else [], using=alias)
        found = top_tenants(
            key,
            SPANS[options["span"]],
            by=NAMES[options["by"]],
            queue=options["queue"],
            most=options["limit"],
            using=alias,
        )
        self.answer({"key": key, "span": options["span"], **asdict(found)}, _text(key, found, alias))


def _text(key: str, found: TopTenants, alias: str) -> str:
    rest = {"(all others)": found.others, f"(without {key})": found.nameless, "(all)": found.total}
    rows = [_row(shortened(row.tenant, LONGEST), row) for row in found.tenants]
    rows += [_row(name, row) for name, row in rest.items()]
    lines = [table((key.upper(), *HEADINGS), rows, right=range(1, 7))]
    if found.known_until is None:
        lines.append("No worker has summed up this time.")
    else:
        lines.append(f"From {PLAIN.time(found.begin)} to {PLAIN.time(found.known_until)}.")
    if found.is_cut:
        lines.append(
            "The figures of a tenant are at least these: in some minutes it was counted among the others."
        )
    if found.is_sample:
        lines.append("In busy minutes a sample of the messages was counted.")
    if not queues_with(key, using=alias):
        lines.append(f"No queue has {key!r} among its search keys: add it to the option search of the queues.")
    return "\n".join(lines)


def _row(name: str, row: TenantFigures) -> tuple[str, ...]:
    waiting = PLAIN.number(row.waiting)
    counts = (PLAIN.number(row.accepted), waiting, PLAIN.number(row.failed), PLAIN.number(row.dead))
    return (name, *counts, PLAIN.precise(row.wait_p95), PLAIN.precise(row.run_seconds or None))
