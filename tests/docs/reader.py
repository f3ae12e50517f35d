"""A reader of the documentation: does what a page says, to the letter, in a project of its own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT
from tests.support.waiting import read_until

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Variables of the tests that would lead the project's processes elsewhere.
FOREIGN = ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL", "MARIADB_URL")


class Reader:
    """Writes files, types commands into a shell, and remembers what was printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = ""
        programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        mine = {"PATH": programs, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        mine["PYTEST_PLUGINS"] = "django_mq.pytest_plugin"  # as if django_mq was installed, not on the path
        self.environment = {key: value for key, value in os.environ.items() if key not in FOREIGN} | mine

    def write(self, file: str, text: str) -> None:
        """Add to a file, which may be new."""
        path = self.folder / file
        path.write_text((path.read_text() if path.exists() else "") + "\n" + text)

    def type(self, line: str, *, code: int = 0) -> None:
        """Run a command that ends by itself; to a question, the answer is yes."""
        ours, terminal = pty.openpty()
        os.write(ours, b"yes\n")
        try:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.folder,
                env=self.environment,
                stdin=terminal,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(terminal)
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        self.printed += done.stdout + done.stderr

    @contextmanager
    def terminal(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that goes on until it is stopped."""
        with subprocess.Popen(
            ["bash", "-c", f"exec env {line}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGTERM)

    def watch(self, line: str, text: str) -> None:
        """Run a command that goes on until it has printed the text, then stop it."""
        with self.terminal(line) as process:
            self.printed += read_until(process, text)
