"""Both parts of the tutorial, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOCS, blocks, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = DOCS / "tutorial/quickstart.md"
SECOND = DOCS / "tutorial/when-a-message-fails.md"
#: Commands that prepare a reader's machine; the tests' environment has their results.
PREPARED = ("python3 -m venv", "pip install")
PROGRAMS = {
    "python": [sys.executable],
    "django-admin": [sys.executable, "-m", "django"],
    "celery": [sys.executable, "-m", "celery"],
}


class Reader:
    """A reader: does what the page says, and remembers what was printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = ""
        foreign = ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL")
        self.environment = {key: value for key, value in os.environ.items() if key not in foreign}
        self.environment["PYTHONUNBUFFERED"] = "1"

    def write(self, file: str, text: str) -> None:
        """Add to a file, which may be new."""
        path = self.folder / file
        path.write_text((path.read_text() if path.exists() else "") + "\n" + text)

    def type(self, line: str) -> None:
        """Run a command that ends by itself."""
        done = subprocess.run(
            self.words(line), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        self.printed += done.stdout

    @contextmanager
    def terminal(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that goes on until it is stopped."""
        with subprocess.Popen(
            self.words(line),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    @staticmethod
    def words(line: str) -> list[str]:
        program, *arguments = shlex.split(line)
        return [*PROGRAMS[program], *arguments]


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
        answer = next((line for line in process.stdout if re.search(r"\b5$", line.rstrip())), "")

    assert "receipt for order 7, attempt 1" in reader.printed
    assert "ForkPoolWorker" in answer


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


@pytest.mark.once
def test_the_page_on_tests_has_tests_that_pass_in_the_quickstarts_project(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    follow(reader)
    page = DOCS / "how-to/messages/test-your-code.md"
    in_a_transaction, of_a_handler, through_the_queue, database = python(page)

    reader.write("orders/tests.py", in_a_transaction + of_a_handler + through_the_queue)
    reader.write("shop/settings.py", database)
    reader.printed = ""
    reader.type("python manage.py test")

    assert "receipt for order 7, attempt 1" in reader.printed


def test_the_quickstart_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) < 85
