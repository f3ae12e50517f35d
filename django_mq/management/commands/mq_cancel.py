"""Remove single messages that nobody holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django_mq.diagnosis.naming import check_names
from django_mq.engine.states import State
from django_mq.management.arguments import add_dry_run, add_json
from django_mq.management.command import MQCommand
from django_mq.management.tables import plural
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(MQCommand):
    help = (
        "Remove messages by their ids, in every queue or one. What a worker holds stays: it may be running. "
        "One that was not removed is named."
    )
    exit_codes: ClassVar = {1: "refused, or not every message was removed"}

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("ids", metavar="MESSAGE_ID", nargs="+", type=UUID)
        parser.add_argument("--queue", metavar="QUEUE", help="Only in this queue.")
        add_dry_run(parser, what="what would be removed")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        if options["queue"]:
            check_names([options["queue"]], using=alias)
        found = Message.objects.using(alias).filter(message_id__in=options["ids"])
        if options["queue"]:
            found = found.filter(queue__name=options["queue"])
        rows = list(found.values_list("id", "message_id", "state"))
        free = [row_id for row_id, _, state in rows if state != State.CLAIMED.value]
        missing = [str(one) for one in options["ids"] if one not in {message_id for _, message_id, _ in rows}]
        if options["dry_run"]:
            gone, verb = len(free), "would be removed"
        else:
            gone, verb = (shared_store(alias).cancel(free) if free else 0), "removed"
        self._say(gone, verb, held=len(rows) - gone, missing=missing, as_json=options["json"])
        if missing or gone < len(rows):
            raise SystemExit(1)

    def _say(self, gone: int, verb: str, *, held: int, missing: list[str], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({verb.replace(" ", "_"): gone, "held": held, "missing": missing}))
            return
        self.stdout.write(f"{plural(gone, 'message')} {verb}.")
        if held:
            self.stderr.write(f"{plural(held, 'message')} held by a worker.")
        for one in missing:
            self.stderr.write(f"There is no message {one}.")
