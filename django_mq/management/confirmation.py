"""A question at the terminal. A script answers it beforehand, with --yes."""

from __future__ import annotations

import sys

from django.core.management.base import CommandError


def confirm(question: str, *, otherwise: str) -> None:
    """Go on if the answer is yes. Raises CommandError, saying ``otherwise`` for any other."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("Nobody is there to be asked; say --yes.")
    try:
        answer = input(f"{question} [yes/no] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in {"y", "yes"}:
        raise CommandError(otherwise)
