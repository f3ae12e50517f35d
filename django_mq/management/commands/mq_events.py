"""List, emit and delete events of durable handlers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Count, Q

from django_mq.acts import recorder
from django_mq.durable import events
from django_mq.durable.models import DurableEvent
from django_mq.engine.decisions.durable import StepOutcome
from django_mq.errors import UnusableEvent
from django_mq.formats import PLAIN
from django_mq.management.arguments import WHY, UsageError, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADINGS = ("EVENT", "KEY", "EMITTED", "KEPT UNTIL", "WAITING")
ACTIONS = ("list", "emit", "delete")


class Command(MQCommand):
    help = (
        "List the events of durable handlers, the newest first, emit one by hand, or delete one for which nothing "
        "waits. The first event of a name and a key counts: all handlers that wait for it go on."
    )
    exit_codes: ClassVar = {1: "refused, or there is no such event, or it was emitted already"}
    arguments: ClassVar = (
        argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list"),
        argument("event", nargs="?", default="", help="The name to emit or delete, or the only one to list."),
        argument("key", nargs="?", default=None, help="The key; default: blank, and with list any."),
        argument("--payload", metavar="JSON", help="With emit: what the handlers get; default: null."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to list; default: 20."),
        WHY,
    )
    json = "a JSON array of what is listed, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        action = options["action"]
        if action == "list":
            self._list(alias, options)
            return
        if not options["event"]:
            raise UsageError(f"{action} takes the name of an event, and its key if it has one.")
        if action == "delete" and options["payload"] is not None:
            raise UsageError("--payload is for emit.")
        name, key = options["event"], options["key"] or ""
        payload = _read(options["payload"])
        about = f"{name} {key}".strip()
        answers = {"payload": options["payload"]} if options["payload"] else {}
        act = self.new_act("durableevent", action, about=about, reason=options["why"], answers=answers)
        with recorder.recorded(act, using=alias):
            if action == "delete":
                events.delete(name, key, alias=alias)
                act.sentence = f"{about!r} is deleted."
            elif not events.emit(name, key, payload, ttl_seconds=None, alias=alias):
                raise UnusableEvent(f"The event {about!r} was emitted already.")
            else:
                act.sentence = f"{about!r} is emitted."
        self.answer({action: about}, act.sentence)

    def _list(self, alias: str, options: Mapping[str, Any]) -> None:
        found = DurableEvent.objects.using(alias).order_by("-pk")
        if options["event"]:
            found = found.filter(name=options["event"])
        if options["key"] is not None:
            found = found.filter(key=options["key"])
        is_open = Q(waits__outcome=StepOutcome.OPEN.value)
        rows = list(found.annotate(waiting=Count("waits", filter=is_open))[: options["limit"]])
        lines = [
            (
                row.name,
                row.key,
                *(PLAIN.time(at) if at else "" for at in (row.emitted_at, row.expires_at)),
                PLAIN.number(row.waiting),
            )
            for row in rows
        ]
        text = table(HEADINGS, lines, right=[4]) if rows else "There are no events to show."
        self.answer([_object(row) for row in rows], text)


def _read(payload: str | None) -> Any:
    try:
        return json.loads(payload or "null")
    except ValueError as error:
        raise UsageError(f"--payload is no JSON: {error}") from None


def _object(row: Any) -> dict[str, Any]:
    times = {name: getattr(row, name) for name in ("emitted_at", "expires_at", "waited_at")}
    return {"event": row.name, "key": row.key, "waiting": row.waiting, **times}
