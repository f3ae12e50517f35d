"""The base of commands that change messages: by their ids, or all that match filters."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db.models import Q

from django_mq.acts import recorder
from django_mq.acts.command_lines import OPTIONS
from django_mq.delivery.operator import actions
from django_mq.delivery.operator.recalls import recalled
from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages import criteria
from django_mq.diagnosis.messages.choice import Choice
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.engine.states import State
from django_mq.errors import MQError
from django_mq.formats import COUNT_LIMIT, PLAIN, plural
from django_mq.management.arguments import LIMIT, WHY, UsageError, argument
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason, confirm
from django_mq.management.progress import watched

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Collection, Mapping, Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.management.arguments import Argument
    from django_mq.stores.records import Moved

#: Filters of the admin's message list: URL parameter of the list, metavar, help text.
FILTERS = (
    ("queue", "QUEUE", "Messages in this queue."),
    ("type", "TYPE", "Messages of this type; the type of a Celery task is its name."),
    ("error", "NAME", "Messages of which an attempt has failed with this exception."),
    ("failure", "ID", "Messages of which the last failed attempt is in this group of mq_failures."),
    ("reason", "TEXT", "Messages that are dead for this reason."),
    ("since", "TIME", "Messages published then or later."),
    ("until", "TIME", "Messages published before."),
    ("q", "TEXT", "Messages with this id or header NAME:VALUE."),
)


#: Options that an act keeps, beside the filters.
GIVEN = ("to", "at", "delay", "state", "limit")


def _filter(text: str) -> tuple[str, str]:
    """Read a filter as the URL of the list of messages has it."""
    name, found, value = text.partition("=")
    if not found or not value or name not in criteria.NAMES:
        raise ArgumentTypeError(f"must be NAME=VALUE, with one of the names {', '.join(sorted(criteria.NAMES))}.")
    return name, value


FILTER = argument(
    "--filter",
    dest="filters",
    action="append",
    default=[],
    type=_filter,
    metavar="NAME=VALUE",
    help="A filter of the admin's list of messages, as its URL has it; as often as needed.",
)
FILTER_ARGUMENTS = tuple(
    argument(f"--{OPTIONS[name]}", metavar=metavar, help=words) for name, metavar, words in FILTERS
)


def read_filters(alias: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the given filters by their parameters. Raises UnknownQueue, InvalidMessage."""
    filters = {name: options[option] for name, option in OPTIONS.items() if options[option]}
    if "queue" in filters:
        check_names([filters["queue"]], using=alias)
    for name in {"since", "until"} & filters.keys():
        filters[name] = read_time(filters[name], f"--{name}").isoformat()
    return filters


def read_ids(names: Sequence[str]) -> list[UUID]:
    """Return these ids of messages. Raises UsageError."""
    for name in names:
        if not is_id(name):
            raise UsageError(f"{name!r} is no message id; name a queue with --queue.")
    return list(map(UUID, names))


def is_id(name: str) -> bool:
    """Return whether the text has the form of a message's id."""
    try:
        UUID(name)
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class Tally:
    """How many messages were changed, how many were left, and the error that ended the command."""

    done: int = 0
    left: int = 0
    error: MQError | None = None


class MessageCommand(MQCommand):
    """A command that changes messages; a subclass names an action of ``delivery.operator.actions``."""

    exit_codes: ClassVar = {1: "refused, or not every message could be done"}
    dry_run = "how many messages would be tried, counted up to 10,000"
    action: str
    #: What is done to the messages, as in "3 messages removed", and the key in JSON.
    verb: str
    #: A further condition for messages that match filters.
    among = Q()
    #: The key in JSON, and the words, for messages that were left.
    left: tuple[str, str] = ("left", "left alone: in another state, nothing to change, or changed meanwhile")
    #: Whether to take back, before, what workers have not begun.
    recalls: bool = False
    #: Whether to ask before all that match are changed.
    asks: bool = False
    #: Whether there is an option --state.
    narrows: bool = False
    #: Says why.
    why = staticmethod(WHY)
    #: The arguments that name messages one by one.
    names: ClassVar[Sequence[Argument]] = (
        argument("ids", metavar="MESSAGE_ID", nargs="*", type=UUID, help="These messages; or filters:"),
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        added = [*self.names, *FILTER_ARGUMENTS, FILTER, LIMIT, self.why]
        if self.narrows:
            states = sorted(state.name.lower() for state in actions.STATES[self.action])
            added.append(argument("--state", choices=states, help="Of those that match, the ones in this state."))
        if self.asks:
            added.append(argument("--yes", action="store_true", help="Do not ask, even if filters match many."))
        for add in added:
            add(parser)
        super().add_arguments(parser)

    def run(self, alias: str, **options: Any) -> None:
        self.states = self.fitting(options)
        if state := options.get("state"):
            if options["ids"]:
                raise UsageError("--state goes with filters: a message named by its id may be in any state.")
            self.states = frozenset({State[state.upper()]})
        filters = self._filters(alias, options)
        choice = Choice(options["ids"], filters, options["limit"], self.among)
        missing = choice.missing(using=alias)
        if options["dry_run"]:
            tally, verb = self._would(choice, alias), f"would be {self.verb}"
        else:
            self._ask(choice, alias, options)
            reason = ask_reason(
                lambda limit: self._would(choice, alias, limit).done, options["why"], yes=options.get("yes", False)
            )
            criterion = {"filters": filters} if filters else {"chosen": len(options["ids"])}
            answers = {name: options[name] for name in GIVEN if options.get(name) is not None}
            self.act = self.new_act("message", self.action, criterion=criterion, answers=answers, reason=reason)
            tally, verb = self._do(choice, alias, options), self.verb
            found = self.beyond(missing, alias, options) if missing else ()
            tally.done += len(found)
            missing = [one for one in missing if one not in found]
            recorder.told(self.act, f"{plural(tally.done, 'message')} {verb}.", using=alias)
        self._say(tally, verb, [str(one) for one in missing])
        if tally.error is not None:
            raise tally.error
        if missing or tally.left:
            raise SystemExit(1)

    def fitting(self, options: dict[str, Any]) -> frozenset[State]:  # noqa: ARG002 - for others
        """Return the states of the messages that are changed."""
        return actions.STATES[self.action]

    def change(
        self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]
    ) -> Sequence[Moved] | Sequence[int]:
        """Change these messages and return which were changed. Raises MQError."""
        raise NotImplementedError

    def count(self, rows: Sequence[ActionTarget], changed: Sequence[Moved] | Sequence[int]) -> None:
        """Add to what ``more`` prints that these rows were changed."""

    def beyond(self, missing: Sequence[UUID], alias: str, options: dict[str, Any]) -> Collection[UUID]:  # noqa: ARG002 - for others
        """Change what is left of messages that do not exist any more; return those of which something was."""
        return ()

    def more(self) -> tuple[dict[str, Any], list[str]]:
        """Return what else to print: keys in JSON, and lines."""
        return {}, []

    def _filters(self, alias: str, options: dict[str, Any]) -> dict[str, str]:
        filters = dict(options["filters"]) | read_filters(alias, options)
        if not filters and not options["ids"]:
            raise UsageError("Name messages by their ids, or say by filters which are meant; see --help.")
        return filters

    def _would(self, choice: Choice, alias: str, limit: int = COUNT_LIMIT) -> Tally:
        counts = choice.count(self.states, limit=limit, using=alias)
        fit = sum(count for state, count in counts.items() if State(state) in self.states)
        return Tally(fit, counts.total() - fit)

    def _ask(self, choice: Choice, alias: str, options: dict[str, Any]) -> None:
        if not self.asks or options["yes"] or choice.ids:
            return
        number = PLAIN.bounded(self._would(choice, alias).done)
        confirm(
            f"Messages of database {alias!r} to be {self.verb}: {number}. Continue?", otherwise="Nothing was done."
        )

    def _do(self, choice: Choice, alias: str, options: dict[str, Any]) -> Tally:
        held_in = choice.held_in(using=alias) if self.recalls else ()
        with recalled(held_in, using=alias):
            return self._do_each(choice, alias, options)

    def _do_each(self, choice: Choice, alias: str, options: dict[str, Any]) -> Tally:
        tally = Tally()
        for rows in watched(choice.batches(self.states, using=alias), unit="batches"):
            fit = [row for row in rows if State(row.state) in self.states]
            try:
                changed = self._change(fit, alias, options) if fit else ()
            except MQError as error:
                if not tally.done:
                    raise
                # The batches before are changed, which the command has to print.
                tally.error = error
                break
            self.count(fit, changed)
            tally.done += len(changed)
            tally.left += len(rows) - len(changed)
        return tally

    def _change(
        self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]
    ) -> Sequence[Moved] | Sequence[int]:
        return recorder.perform(self.act, rows, partial(self.change, rows, alias, options), using=alias)

    def _say(self, tally: Tally, verb: str, missing: list[str]) -> None:
        key, words = self.left
        keys, lines = self.more()
        value = {verb.replace(" ", "_"): tally.done, key: tally.left, "missing": missing, **keys}
        self.answer(value, "\n".join([f"{plural(tally.done, 'message')} {verb}.", *lines]))
        if self.as_json:
            return
        if tally.left:
            self.stderr.write(f"{plural(tally.left, 'message')} {words}.")
        for one in missing:
            self.stderr.write(f"There is no message {one}.")
