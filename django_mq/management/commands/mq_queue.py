"""Create, edit, show and delete queues, and give them the options of the settings."""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db.models import Q

from django_mq import conf
from django_mq.acts import recorder
from django_mq.delivery.operator.drift import differences, overwrite
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue, editable, queue_named
from django_mq.delivery.queues import declare, similar
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.options import OPTIONS
from django_mq.errors import ConfigurationError
from django_mq.formats import plural
from django_mq.management.arguments import WHY
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason
from django_mq.models import Queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping

    from django_mq.engine.options import Option

#: The functions that read an option's value; other values are text.
READERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float}
OVERWRITE_HELP = "Overwrite the options of existing queues, also those that an operator has changed."
FORCE_HELP = "Move the messages to the dead-letter queue, or delete them if there is none."


class Command(MQCommand):
    help = "Create, edit, show or delete a queue, or compare queues with the settings."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="act", required=True, metavar="create|edit|delete|show|sync")
        for act in (self.create, self.edit, self.delete, self.show, self.sync):
            command = actions.add_parser(act.__name__, help=act.__doc__, description=act.__doc__)
            super().add_arguments(command)
            command.set_defaults(act=act)
            if act == self.sync:
                command.add_argument("names", metavar="QUEUE", nargs="*", help="All declared queues without it.")
                command.add_argument("--force", action="store_true", help=OVERWRITE_HELP)
                command.add_argument("--dry-run", action="store_true", help="Only print what would be changed.")
                continue
            command.add_argument("name", metavar="QUEUE")
            if act == self.delete:
                command.add_argument("--force", action="store_true", help=FORCE_HELP)
                command.add_argument("--dry-run", action="store_true", help="Only print what would be deleted.")
                WHY(command)
            elif act != self.show:
                _add_options(command)

    def run(self, alias: str, **options: Any) -> None:
        options["act"](alias, **options)

    def create(self, alias: str, *, name: str, **options: Any) -> None:
        """Create a queue."""
        name.encode()  # what was typed in no UTF-8 is a usage error, as with the other commands
        create_queue(name, _given(options), using=alias)
        self.note(alias, "queue", "add", [name], answers=_given(options))
        self.answer({"created": name}, f"Queue {name!r} is created.")

    def edit(self, alias: str, *, name: str, **options: Any) -> None:
        """Change options of a queue; running workers follow within seconds."""
        edit_queue(name, _given(options), using=alias)
        self.note(alias, "queue", "change", [name], answers=_given(options))
        self.answer({"changed": name}, f"Queue {name!r} is changed.")

    def delete(self, alias: str, *, name: str, force: bool, dry_run: bool, why: str, **_: Any) -> None:
        """Delete a queue: with --force if it has messages, and never while workers hold messages of it."""
        if dry_run:
            self._would_delete(name, alias, force=force)
            return
        if force:
            (queue,) = overview([name], using=alias)
            count = queue.ready + queue.scheduled + queue.parked + queue.dead
            why = ask_reason(lambda _limit: count, why)
        with recorder.recorded(self.new_act("queue", "delete", about=name, reason=why), using=alias) as act:
            act.count = removed = shared_store(alias).deletions.delete_queue(name, force=force)
            act.sentence = _deleted(name, "is deleted", removed)
        self.answer({"deleted": name, "removed": removed}, act.sentence)

    def show(self, alias: str, *, name: str, **_: Any) -> None:
        """Show the options of a queue, and those of the settings that differ."""
        queue = queue_named(name, using=alias)
        stored = {option: queue.value_of(option) for option in conf.queue_options()}
        differing = {each.option: each.declared for each in differences([name], using=alias)}
        lines = [
            f"{option} = {value!r}" + (f" (the settings: {differing[option]!r})" if option in differing else "")
            for option, value in stored.items()
        ]
        self.answer({"queue": name, "options": stored, "differing": differing}, "\n".join(lines))

    def sync(self, alias: str, *, names: list[str], force: bool, dry_run: bool, **_: Any) -> None:
        """Create declared queues that do not exist; with --force, give the others the options of the settings."""
        declared, store = conf.load().QUEUES, shared_store(alias)
        for name in names:
            if name not in declared:
                raise CommandError(f"DJANGO_MQ['QUEUES'] does not declare {name!r}.{similar(name, declared)}")
        missing = [name for name in names or declared if store.queues.find(name) is None]
        found = differences(names or None, using=alias)
        if not dry_run:
            for name in missing:
                declare(store, name)
            if force:
                overwrite(found, using=alias)
            self.note(alias, "queue", "add", missing)
            self.note(alias, "queue", "change", {each.queue for each in found} if force else ())
        created, changed = ("would_create", "would_change") if dry_run else ("created", "changed")
        answer = {created: missing, changed if force else "kept": [asdict(each) for each in found]}
        lines = [f"Queue {name!r} {'would be' if dry_run else 'is'} created." for name in missing]
        done = "would be overwritten" if dry_run else "overwritten"
        told = done if force else "kept; --force overwrites it"
        lines += [f"Queue {each.queue!r}: {each} ({told})." for each in found]
        same = "All options that the settings name are as the settings say; mq_queue edit changes the others."
        self.answer(answer, "\n".join(lines) or same)

    def _would_delete(self, name: str, alias: str, *, force: bool) -> None:
        (queue,) = overview([name], using=alias)
        free = queue.ready + queue.scheduled + queue.parked + queue.dead
        linked = Queue.objects.using(alias).filter(Q(dead_letter_queue__name=name) | Q(expiry_queue__name=name))
        why = ""
        if others := ", ".join(repr(other.name) for other in linked):
            why = f"it is the dead-letter or expiry queue of {others}"
        elif queue.claimed:
            why = "workers hold messages of it"
        elif free and not force:
            why = "it holds messages, and --force is not given"
        if why:
            text = f"Queue {name!r} would not be deleted: {why}."
            self.answer({"would_delete": False, "why": why}, text)
            return
        self.answer({"would_delete": True, "would_remove": free}, _deleted(name, "would be deleted", free))


def _deleted(name: str, words: str, messages: int) -> str:
    return f"Queue {name!r} {words}" + (f", and {plural(messages, 'message')} with it." if messages else ".")


def _add_options(parser: ArgumentParser) -> None:
    """Add the options of a queue; options that are not given are absent from the result."""
    known: Mapping[str, Option] = OPTIONS
    with suppress(ConfigurationError):  # the command says it
        known = conf.queue_options()
    for name, option in known.items():
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
    return {name: options[name] for name in editable() if name in options}
