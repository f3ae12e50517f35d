"""Each file that a page names exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from django_mq.stores.sql.database import named
from tests.docs.pages import README, ROOT, name, pages

if TYPE_CHECKING:
    from pathlib import Path

#: A path below one of the folders at the top, in backquotes or in a command.
NAMED = re.compile(r"(?<![\w./-])(?:django_mq|example_project|tests)/[\w./-]*\w")
#: A statement, and the file in which it stands.
STATEMENT = re.compile(r"`(\w+)` in `(django_mq/[\w/]+\.sql)`")
LINKED = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_path_on_a_page_exists(page: Path) -> None:
    paths = set(NAMED.findall(page.read_text(encoding="utf-8")))

    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_statement_on_a_page_is_in_its_file(page: Path) -> None:
    written = STATEMENT.findall(page.read_text(encoding="utf-8"))

    assert [
        one for one, path in written if one not in dict(named((ROOT / path).read_text(encoding="utf-8")))
    ] == []


def test_every_link_of_the_readme_leads_somewhere() -> None:
    linked = LINKED.findall(README.read_text(encoding="utf-8"))

    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_the_travel_page_names_a_file_for_each_step() -> None:
    page = (ROOT / "docs" / "a-message-travels.md").read_text(encoding="utf-8")
    steps = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line)]

    assert len(steps) == 10
    assert all(NAMED.search(step) for step in steps)
