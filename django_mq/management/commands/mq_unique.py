"""Show the unique keys that are held, or free some from their messages."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.diagnosis.state.unique_keys import held_keys
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import UsageError, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.stores.registry import shared_store

#: How many keys are shown or freed by default.
MOST = 100


class Command(MQCommand):
    help = (
        "Show the unique keys that messages hold. Or free a key: the next message with it is published, also if "
        "the one that holds it is not finished."
    )
    arguments: ClassVar = (
        argument(
            "name", metavar="KEY", nargs="?", help="Only this key, or that of the message or task with this id."
        ),
        argument("--free", action="store_true", help="Free it."),
        argument("--limit", type=at_least_one, metavar="N", default=MOST, help="At most so many; default: 100."),
    )

    def run(self, alias: str, **options: Any) -> None:
        if options["free"] and options["name"] is None:
            raise UsageError("Give the KEY to free.")
        found = held_keys(options["name"], options["limit"], using=alias)
        if options["free"]:
            keys = shared_store(alias).unique_keys
            freed = sum(keys.free(key.digest) for key in found)
            self.note(alias, "uniquekey", "free", [options["name"]] if freed else ())
            self.answer({"freed": freed}, f"{plural(freed, 'key')} freed.")
            return
        rows = [[each.label or "-", each.until, str(each.message_id), PLAIN.time(each.first_at)] for each in found]
        text = table(["KEY", "UNTIL", "MESSAGE", "TAKEN"], rows) if rows else "No key is held."
        told = [
            {
                "key": key.label or None,
                "until": key.until,
                "message_id": str(key.message_id),
                "owner": key.owner,
                "taken_at": key.first_at.isoformat(),
                "ends_at": key.ends_at and key.ends_at.isoformat(),
            }
            for key in found
        ]
        self.answer(told, text)
