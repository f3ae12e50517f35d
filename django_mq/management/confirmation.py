"""A question at the terminal. A script answers it beforehand, with --yes."""

from __future__ import annotations

import sys

from django.core.management.base import CommandError


def confirm(question: str, *, otherwise: str) -> None:
    """Ask the question. Raise CommandError with the text ``otherwise`` unless the answer is yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("This command asks for confirmation, but the input is not a terminal. Give --yes.")
    try:
        answer = input(f"{question} [yes/no] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in {"y", "yes"}:
        raise CommandError(otherwise)
