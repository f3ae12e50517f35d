"""The page of the commands names every command, option and exit code, and no other."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

import pytest
from django.core.management import get_commands, load_command_class

from django_mq import conf
from django_mq.management.command import MQCommand
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.management.base import BaseCommand

PAGE = (DOCS / "reference/commands.md").read_text(encoding="utf-8")
NAMES = sorted(name for name, app in get_commands().items() if app == "django_mq")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
#: Options of all commands, which the page describes once.
COMMON = {"--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color"}
COMMON |= {"--force-color", "--skip-checks", "--database"}
#: Options of queues, which the page of the settings has.
OF_QUEUES = {f"--{no}{name.replace('_', '-')}" for name in conf.queue_options() for no in ("", "no-")} | {"--no"}


def command(name: str) -> BaseCommand:
    return load_command_class("django_mq", name)


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"{name} has no section"
    return found[1]


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (text for text in action.option_strings if text.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from options(one)


def test_there_are_as_many_commands_as_sections() -> None:
    assert sorted(re.findall(r"^## (mq_\w+)$", PAGE, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_every_option_and_no_other(name: str) -> None:
    known = set(options(command(name).create_parser("manage.py", name))) - COMMON - OF_QUEUES

    assert set(OPTION.findall(section(name))) - COMMON - OF_QUEUES == known


def rows(name: str, codes: dict[int, str]) -> list[str]:
    return [f"| {name} | {code} | {meaning} |" for code, meaning in sorted(codes.items())]


def test_the_page_has_every_exit_code_and_no_other() -> None:
    ours = {name: one for name in NAMES if isinstance(one := command(name), MQCommand)}
    expected = rows("all", MQCommand.EXIT_CODES)
    for name, one in ours.items():
        expected += rows(f"`{name}`", one.exit_codes)

    assert re.findall(r"^\| (?:all|`mq_\w+`) \| \d+ \| .* \|$", PAGE, re.MULTILINE) == expected


@pytest.mark.parametrize("name", NAMES)
def test_its_own_help_says_what_its_exit_codes_mean(name: str) -> None:
    assert "Exit codes: 0: " in " ".join(command(name).create_parser("manage.py", name).format_help().split())
