"""Create, edit, pause and delete queues."""

from __future__ import annotations

import json
from argparse import SUPPRESS, BooleanOptionalAction
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.conf import DUE_ORDERS, GROUPINGS, OVERFLOWS, QUEUE_KINDS, QueueSettings
from django_mq.delivery.editing import OPTIONS, create_queue, edit_queue
from django_mq.diagnosis.overview import overview
from django_mq.management.arguments import add_dry_run, add_json, add_pause
from django_mq.management.command import MQCommand
from django_mq.management.pausing import pause_all, resume_all
from django_mq.management.tables import plural
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

#: How an option's value is read from the command line; the rest is text.
READERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float}
CHOICES = {
    "kind": QUEUE_KINDS,
    "due_order": DUE_ORDERS,
    "levels": range(1, 11),
    "overflow": OVERFLOWS,
    "grouping": GROUPINGS,
}
HELPS = {
    "kind": "Order of the queue; priority without it.",
    "levels": "Priority lists of a priority queue, 1 to 10.",
    "due_order": "Where messages go whose time has come.",
    "max_attempts": "Failed deliveries until a message is dead; 0 = never.",
    "backoff_seconds": "Delay before the second delivery.",
    "backoff_multiplier": "Factor from one delay to the next, 1 or more.",
    "backoff_cap_seconds": "Longest delay.",
    "backoff_jitter": "Share of the delay drawn at random, 0 to 1.",
    "dead_letter_queue": "Existing queue that takes dead letters.",
    "last_value_key": "The header of which a last-value queue keeps one message per value.",
    "max_messages": "Most messages held, whatever their state.",
    "max_bytes": "Most bytes of bodies held, whatever the state of their messages.",
    "overflow": "What becomes of a message too many.",
    "wait_seconds": "How long a publisher waits for room if it may.",
    "dedup_count": "How many duplicate ids are remembered at least; 0 = none.",
    "dedup_seconds": "How long a duplicate id is remembered at most.",
    "min_ttl_seconds": "A shorter time to live is prolonged to this.",
    "max_ttl_seconds": "A longer time to live, or none, is cut to this.",
    "expiry_queue": "Existing queue that takes expired messages.",
    "ttl_seconds": "Time to live of messages published without one.",
    "history_days": "How long finished messages are remembered; 0 = not at all.",
    "history_body": "Whether the history keeps bodies.",
    "grouping": "How messages with a group key are shared out among workers.",
    "strict": "Whether claims never step over a message that cannot be had just then.",
    "max_in_flight": "Most messages claimed at once, over all workers.",
    "max_consumers": "Most workers that receive; the others stand by.",
    "exclusive": "Whether one worker has the queue to itself.",
}


class Done(NamedTuple):
    """What an act says, to people and to scripts."""

    text: str
    twin: dict[str, Any]


FORCE_HELP = "Send the messages to the dead-letter queue, or delete them if there is none."


class Command(MQCommand):
    help = "Create, edit, pause, resume or delete a queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="create|edit|pause|resume|delete")
        for act in (self.create, self.edit, self.pause, self.resume, self.delete):
            one = acts.add_parser(act.__name__, help=act.__doc__, description=act.__doc__)
            super().add_arguments(one)
            one.add_argument("name", metavar="QUEUE")
            one.set_defaults(act=act)
            if act in (self.create, self.edit):
                _add_options(one)
            elif act == self.pause:
                add_pause(one)
            elif act == self.delete:
                one.add_argument("--force", action="store_true", help=FORCE_HELP)
                add_dry_run(one, what="what would be deleted")
            add_json(one)

    def run(self, alias: str, **options: Any) -> None:
        done: Done = options["act"](alias, **options)
        self.stdout.write(json.dumps(done.twin) if options["json"] else done.text)

    def create(self, alias: str, *, name: str, **options: Any) -> Done:
        """Create a queue."""
        create_queue(name, _given(options), using=alias)
        return Done(f"Queue {name!r} is created.", {"created": name})

    def edit(self, alias: str, *, name: str, **options: Any) -> Done:
        """Change options of a queue; running workers notice within seconds."""
        edit_queue(name, _given(options), using=alias)
        return Done(f"Queue {name!r} is changed.", {"changed": name})

    def pause(self, alias: str, *, name: str, reason: str, seconds: float | None, **_: Any) -> Done:
        """Deliver nothing from a queue; publishing goes on."""
        (said,) = pause_all([name], reason=reason, seconds=seconds, using=alias)
        return Done(said, {"paused": [name]})

    def resume(self, alias: str, *, name: str, **_: Any) -> Done:
        """Deliver from a queue again, at once."""
        (said,) = resume_all([name], using=alias)
        return Done(said, {"resumed": [name]})

    def delete(self, alias: str, *, name: str, force: bool, dry_run: bool, **_: Any) -> Done:
        """Delete a queue; one that holds messages only with --force, one with claimed messages never."""
        if dry_run:
            return self._would_delete(name, alias, force=force)
        removed = shared_store(alias).delete_queue(name, force=force)
        text = f"Queue {name!r} is deleted" + (f", and {plural(removed, 'message')} with it." if removed else ".")
        return Done(text, {"deleted": name, "removed": removed})

    @staticmethod
    def _would_delete(name: str, alias: str, *, force: bool) -> Done:
        (queue,) = overview([name], using=alias)
        free = queue.ready + queue.scheduled + queue.dead
        if queue.claimed or (free and not force):
            why = "workers hold messages of it" if queue.claimed else "it holds messages, and --force is not given"
            return Done(f"Queue {name!r} would not be deleted: {why}.", {"would_delete": False, "why": why})
        text = f"Queue {name!r} would be deleted" + (f", and {plural(free, 'message')} with it." if free else ".")
        return Done(text, {"would_delete": True, "would_remove": free})


def _add_options(parser: ArgumentParser) -> None:
    """Add one option per field of QueueSettings; those left out say nothing."""
    for field in fields(QueueSettings):
        reading, _, optional = str(field.type).partition(" | ")
        flag = "--" + field.name.replace("_", "-")
        more: dict[str, Any] = {"dest": field.name, "default": SUPPRESS, "help": HELPS[field.name]}
        if reading == "bool":
            parser.add_argument(flag, action=BooleanOptionalAction, **more)
            continue
        more |= {"choices": CHOICES[field.name]} if field.name in CHOICES else {"metavar": reading.upper()}
        parser.add_argument(flag, type=READERS.get(reading, str), **more)
        if optional:
            name = "--no-" + field.name.replace("_", "-")
            parser.add_argument(
                name, dest=field.name, action="store_const", const=None, default=SUPPRESS, help="None again."
            )
    parser.add_argument(
        "--closed",
        action=BooleanOptionalAction,
        default=SUPPRESS,
        help="Whether publishing is refused.",
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in OPTIONS if name in options}
