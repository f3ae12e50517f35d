"""Create, edit, pause and delete queues."""

from __future__ import annotations

import json
from argparse import SUPPRESS, BooleanOptionalAction
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.delivery.operator.queue_editor import EDITABLE, create_queue, edit_queue
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.options import OPTIONS
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


class Done(NamedTuple):
    """What the command prints, as text and as JSON."""

    text: str
    as_json: dict[str, Any]


FORCE_HELP = "Send the messages to the dead-letter queue, or delete them if there is none."


class Command(MQCommand):
    help = "Create, edit, pause, resume or delete a queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="act", required=True, metavar="create|edit|pause|resume|delete")
        for act in (self.create, self.edit, self.pause, self.resume, self.delete):
            one = actions.add_parser(act.__name__, help=act.__doc__, description=act.__doc__)
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
        self.stdout.write(json.dumps(done.as_json) if options["json"] else done.text)

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
    """Add the options of a queue; those left out say nothing."""
    for name, option in OPTIONS.items():
        flag = name.replace("_", "-")
        more: dict[str, Any] = {"dest": name, "default": SUPPRESS, "help": option.help}
        if option.base_type == "bool":
            parser.add_argument(f"--{flag}", action=BooleanOptionalAction, **more)
            continue
        more |= {"choices": [*option.choices]} if option.choices else {"metavar": option.base_type.upper()}
        parser.add_argument(f"--{flag}", type=READERS.get(option.base_type, str), **more)
        if option.optional:
            more |= {"action": "store_const", "const": None, "help": "None again."}
            parser.add_argument(f"--no-{flag}", **{key: more[key] for key in more if key != "metavar"})
    parser.add_argument(
        "--closed",
        action=BooleanOptionalAction,
        default=SUPPRESS,
        help="Whether publishing is refused.",
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in EDITABLE if name in options}
