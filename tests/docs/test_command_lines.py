"""Every command line on a page works: the command exists and takes these arguments."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from django.core.management import load_command_class

from tests.docs.pages import DOCS, name, pages

if TYPE_CHECKING:
    from pathlib import Path

    from django.core.management.base import BaseCommand

#: A command of ours in a line of its own, or between backquotes; a backslash goes on to the next line.
LINE = re.compile(r"(?:`|^[ $]*)(?:python )?manage\.py (mq_\w+)((?:[^`\n\\]|\\\n)*)", re.MULTILINE)
#: Placeholders that a reader replaces.
PLACEHOLDERS = {"...", "[OPTIONS]", "JOB", "ID"}


def lines(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page with their arguments, without comments, pipes and redirections."""
    found = LINE.findall(page.read_text(encoding="utf-8"))
    return [(command, re.split(r"\s[#|<>&]", text.replace("\\\n", " "))[0].strip()) for command, text in found]


def is_typed(arguments: str) -> bool:
    """Say whether the line is complete: a name alone only mentions the command."""
    return bool(arguments) and not PLACEHOLDERS & set(arguments.split())


@pytest.mark.parametrize("page", [page for page in pages() if page != DOCS / "reference/commands.md"], ids=name)
def test_every_command_line_of_a_page_can_be_typed(page: Path) -> None:
    for command, arguments in lines(page):
        known: BaseCommand = load_command_class("django_mq", command)
        if is_typed(arguments):
            known.create_parser("manage.py", command).parse_args(shlex.split(arguments))


def test_command_lines_are_found() -> None:
    typed = [line for page in pages() for line in lines(page) if is_typed(line[1])]

    assert len(typed) > 40
    assert ("mq_pause", 'orders mails --reason "stock taking until noon" --seconds 3600') in typed
