"""Create, edit and delete queues."""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction
from typing import TYPE_CHECKING, Any

from django_mq.delivery.operator.queue_editor import EDITABLE, create_queue, edit_queue
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.options import OPTIONS
from django_mq.management.command import MQCommand
from django_mq.management.tables import plural
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

#: The functions that read an option's value; other values are text.
READERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float}
FORCE_HELP = "Move the messages to the dead-letter queue, or delete them if there is none."


class Command(MQCommand):
    help = "Create, edit or delete a queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="act", required=True, metavar="create|edit|delete")
        for act in (self.create, self.edit, self.delete):
            command = actions.add_parser(act.__name__, help=act.__doc__, description=act.__doc__)
            super().add_arguments(command)
            command.add_argument("name", metavar="QUEUE")
            command.set_defaults(act=act)
            if act == self.delete:
                command.add_argument("--force", action="store_true", help=FORCE_HELP)
                command.add_argument("--dry-run", action="store_true", help="Only print what would be deleted.")
            else:
                _add_options(command)

    def run(self, alias: str, **options: Any) -> None:
        options["act"](alias, **options)

    def create(self, alias: str, *, name: str, **options: Any) -> None:
        """Create a queue."""
        create_queue(name, _given(options), using=alias)
        self.answer({"created": name}, f"Queue {name!r} is created.")

    def edit(self, alias: str, *, name: str, **options: Any) -> None:
        """Change options of a queue; running workers follow within seconds."""
        edit_queue(name, _given(options), using=alias)
        self.answer({"changed": name}, f"Queue {name!r} is changed.")

    def delete(self, alias: str, *, name: str, force: bool, dry_run: bool, **_: Any) -> None:
        """Delete a queue: with --force if it has messages, and never while workers hold messages of it."""
        if dry_run:
            self._would_delete(name, alias, force=force)
            return
        removed = shared_store(alias).delete_queue(name, force=force)
        self.answer({"deleted": name, "removed": removed}, _deleted(name, "is deleted", removed))

    def _would_delete(self, name: str, alias: str, *, force: bool) -> None:
        (queue,) = overview([name], using=alias)
        free = queue.ready + queue.scheduled + queue.dead
        if queue.claimed or (free and not force):
            why = "workers hold messages of it" if queue.claimed else "it holds messages, and --force is not given"
            text = f"Queue {name!r} would not be deleted: {why}."
            self.answer({"would_delete": False, "why": why}, text)
            return
        self.answer({"would_delete": True, "would_remove": free}, _deleted(name, "would be deleted", free))


def _deleted(name: str, words: str, messages: int) -> str:
    return f"Queue {name!r} {words}" + (f", and {plural(messages, 'message')} with it." if messages else ".")


def _add_options(parser: ArgumentParser) -> None:
    """Add the options of a queue; options that are not given are absent from the result."""
    for name, option in OPTIONS.items():
        flag = name.replace("_", "-")
        more: dict[str, Any] = {"dest": name, "default": SUPPRESS, "help": option.help}
        if option.base_type == "bool":
            parser.add_argument(f"--{flag}", action=BooleanOptionalAction, **more)
            continue
        kind = {"choices": [*option.choices]} if option.choices else {"metavar": option.base_type.upper()}
        parser.add_argument(f"--{flag}", type=READERS.get(option.base_type, str), **more, **kind)
        if option.optional:
            more["help"] = f"Set {name} to None."
            parser.add_argument(f"--no-{flag}", action="store_const", const=None, **more)
    closed = "Refuse new messages."
    parser.add_argument("--closed", action=BooleanOptionalAction, default=SUPPRESS, help=closed)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in EDITABLE if name in options}
