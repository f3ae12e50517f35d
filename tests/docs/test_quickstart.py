"""Both parts of the tutorial, followed to the letter in an empty folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOCS, blocks
from tests.docs.reader import Reader
from tests.support.waiting import read_until

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "tutorial/quickstart.md"
SECOND = DOCS / "tutorial/when-a-message-fails.md"
#: Commands that prepare a reader's machine; the tests' environment has their results.
PREPARED = ("python3 -m venv", "pip install")


def follow(reader: Reader) -> str:
    """Do everything up to the Celery worker; return the command that starts it."""
    for block in blocks(PAGE, "python", "shell"):
        if block.language == "python":
            assert block.file is not None
            reader.write(block.file, block.text)
            continue
        for line in block.text.splitlines():
            if line.startswith("celery"):
                return line
            if not line.startswith(PREPARED):
                added_line(reader)
                reader.type(line)
    raise AssertionError("The page starts no Celery worker.")


def added_line(reader: Reader) -> None:
    """Write the one line that the page gives in its text, once Celery's file is there."""
    (file, line) = re.findall(r"`([\w/]+\.py)` gets the line `(.+?)`", PAGE.read_text())[0]
    path = reader.folder / file
    if (reader.folder / "shop" / "celery.py").exists() and line not in path.read_text():
        reader.write(file, line)


def test_the_quickstart_leads_from_an_empty_folder_to_handled_messages(tmp_path: Path) -> None:
    reader = Reader(tmp_path)

    worker = follow(reader)
    with reader.terminal(worker) as process:
        assert process.stdout is not None
        started = read_until(process, "[handlers]")
        answer = next((line for line in process.stdout if re.search(r"\b5$", line.rstrip())), "")

    assert "[queues]" in started
    assert "receipt for order 7, attempt 1" in reader.printed
    assert "ForkPoolWorker" in answer


@pytest.mark.once
def test_the_second_part_leads_to_a_dead_letter_and_back(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    follow(reader)
    reader.printed = ""

    for block in blocks(SECOND, "python", "shell"):
        if block.language == "python":
            assert block.file is not None
            reader.write(block.file, block.text)
        else:
            for line in block.text.splitlines():
                reader.type(line)

    assert "invoice for order 7 from shop@example.org, attempt 1" in reader.printed
    assert "messages in the queue: 0" in reader.printed


def test_the_quickstart_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) < 85
