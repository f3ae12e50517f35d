"""The command that does what an action of the admin does, as a line for a shell.

What the operator has not answered yet is a dot: "…".
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Filters of the list of messages that have an option of their own, by their parameters in the URL.
OPTIONS: Final[Mapping[str, str]] = {
    "queue": "queue",
    "type": "type",
    "error": "error",
    "failure": "failure",
    "reason": "reason",
    "since": "since",
    "until": "until",
    "q": "match",
}
#: What stands for an answer that is not given yet.
UNKNOWN: Final = "…"


def line(command: str, *options: str, names: Iterable[object] = ()) -> str:
    """Return a command line, quoted for a shell. The names come last, and may begin with a hyphen."""
    words = [str(name) for name in names]
    end = ["--"] if any(word.startswith("-") for word in words) else []
    return shell_line([command, *options, *end, *words])


def shell_line(words: Iterable[str]) -> str:
    """Return the line of a command of ``manage.py``, quoted for bash, zsh and other shells of today."""
    return " ".join(map(_quoted, ["python", "manage.py", *words]))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # A control character in a pasted line acts on the terminal, even between quotes; others turn its text round.
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(character: str) -> str:
    if character.isprintable():
        return f"\\{character}" if character in "\\'" else character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def option(name: str, value: object) -> str:
    """Return an option with its value, which may begin with a hyphen; a value that is not known is marked."""
    return f"--{name}={UNKNOWN if value is None or value == '' else value}"


class NamedMessages(NamedTuple):
    """Messages that an action changes: those that match filters of the list, or some by their ids."""

    filters: Mapping[str, str]
    ids: Sequence[object] = ()

    def line(self, command: str, answers: Mapping[str, Any], *options: str) -> str:
        """Return the line of a command that changes messages, with the reason if there is one."""
        return line(command, *options, *reasons(answers), *filtering(self.filters), names=self.ids)


def reasons(answers: Mapping[str, Any]) -> list[str]:
    """Return the option with the reason of an operator, if one was given."""
    return [option("why", answers["reason"])] if answers.get("reason") else []


def filtering(filters: Mapping[str, str]) -> list[str]:
    """Return the options that choose the messages that match filters of the list."""
    return [
        option(OPTIONS[name], value) if name in OPTIONS else option("filter", f"{name}={value}")
        for name, value in filters.items()
    ]
