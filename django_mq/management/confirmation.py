"""Questions at the terminal. A script answers them beforehand, with --yes and --why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from django_mq.acts.extension import asks_reason, reason_above
from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable


def confirm(question: str, *, otherwise: str) -> None:
    """Ask the question. Raise CommandError with the text ``otherwise`` unless the answer is yes."""
    if not _is_terminal():
        raise CommandError("This command asks for confirmation, but the input is not a terminal. Give --yes.")
    if _answer(f"{question} [yes/no] ").lower() not in {"y", "yes"}:
        raise CommandError(otherwise)


def ask_reason(count_up_to: Callable[[int], int], why: str, *, yes: bool = False) -> str:
    """Return why an operator changes messages: what --why says, or what is typed at the terminal if they are many.

    Scripts are not asked, and neither are operators with --yes. ``count_up_to`` counts the messages, up to a
    number. Raise CommandError if nothing is typed.
    """
    if why or yes or not _is_terminal() or not asks_reason(count_up_to):
        return why
    answer = _answer(f"This changes more than {PLAIN.number(reason_above())} messages. Why? ")
    if not answer:
        raise CommandError("Nothing was done. Say why, here or with --why.")
    return answer


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _answer(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        return ""
