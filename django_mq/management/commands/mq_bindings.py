"""Show, add and remove bindings of queues to exchanges."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.delivery.operator.bindings import TYPES, bind, is_bound, unbind
from django_mq.delivery.operator.cycles import find_cycles
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.management.arguments import UsageError, argument, one_of
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.models import Binding

HEADINGS = ("EXCHANGE", "TYPE", "PATTERN", "QUEUE", "SELECTOR")
ENDS = ("EXCHANGE", "QUEUE")
COLUMNS = ("exchange", "exchange_type", "pattern", "queue__name", "selector")


class Command(MQCommand):
    help = "Show bindings, bind a queue to an exchange, or unbind it."
    exit_codes: ClassVar = {1: "refused, or there is no such binding to remove"}

    arguments: ClassVar = (
        argument("exchanges", metavar="EXCHANGE", nargs="*", help="Show only bindings of these exchanges."),
        argument("--queue", metavar="QUEUE", help="Show only bindings of this queue."),
        one_of(
            argument("--bind", nargs=2, metavar=ENDS, help="Deliver messages of the exchange to the queue."),
            argument("--unbind", nargs=2, metavar=ENDS, help="Stop delivering them to the queue."),
        ),
        argument("--type", choices=TYPES, help="The type of a new exchange; default: direct."),
        argument("--pattern", default="", help="The binding's pattern; a fanout or headers exchange has none."),
        argument("--selector", default="", help="Which messages a new binding takes; default: all."),
    )
    dry_run = "what would be done"
    json = "a JSON array of the bindings, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        ends = options["bind"] or options["unbind"]
        if ends is None:
            self._show(alias, options)
            return
        only_to_bind = options["type"] or options["selector"]
        if options["exchanges"] or options["queue"] or (options["unbind"] and only_to_bind):
            raise UsageError(
                "--bind and --unbind take EXCHANGE QUEUE and --pattern; --bind also --type and --selector."
            )
        check_names([ends[1]], using=alias)
        exchange, queue = ends
        act = self._bind if options["bind"] else self._unbind
        act(exchange, queue, alias, options)

    def _show(self, alias: str, options: dict[str, Any]) -> None:
        found = Binding.objects.using(alias).order_by(*COLUMNS)
        if options["exchanges"]:
            found = found.filter(exchange__in=options["exchanges"])
        if options["queue"]:
            check_names([options["queue"]], using=alias)
            found = found.filter(queue__name=options["queue"])
        rows = list(found.values_list(*COLUMNS))
        keys = [heading.lower() for heading in HEADINGS]
        objects = [dict(zip(keys, row, strict=True)) for row in rows]
        self.answer(objects, table(HEADINGS, rows) if rows else "There are no bindings to show.")

    def _bind(self, exchange: str, queue: str, alias: str, options: dict[str, Any]) -> None:
        pattern = options["pattern"]
        if options["dry_run"]:
            is_new = not is_bound(exchange, queue, pattern=pattern, using=alias)
            self._say("would_bind", is_new, "would be bound", options)
            return
        kind, selector = options["type"], options["selector"]
        is_new = bind(exchange, queue, exchange_type=kind, pattern=pattern, selector=selector, using=alias)
        if is_new:
            self.note(alias, "binding", "add", [f"{exchange} → {queue}"])
        self._say("bound", is_new, "bound" if is_new else "bound already", options)
        for cycle in find_cycles(through=queue, using=alias):
            self.stderr.write(f"{cycle}.")

    def _unbind(self, exchange: str, queue: str, alias: str, options: dict[str, Any]) -> None:
        act = is_bound if options["dry_run"] else unbind
        was = act(exchange, queue, pattern=options["pattern"], using=alias)
        if was and not options["dry_run"]:
            self.note(alias, "binding", "delete", [f"{exchange} → {queue}"])
        key, words = ("would_unbind", "would be unbound") if options["dry_run"] else ("unbound", "unbound")
        self._say(key, was, words if was else "there is no such binding", options)
        if not was:
            raise SystemExit(1)

    def _say(self, key: str, is_changed: bool, words: str, options: dict[str, Any]) -> None:
        exchange, queue = options["bind"] or options["unbind"]
        pattern = f" by {options['pattern']!r}" if options["pattern"] else ""
        self.answer({key: int(is_changed)}, f"{exchange!r} to {queue!r}{pattern}: {words}.")
