"""Commands at a real terminal and in pipes: narrow screens, Ctrl-C, Ctrl-D, a reader that closes the pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish, publish_many
from django_mq.delivery.publisher import OutgoingMessage
from django_mq.delivery.queues import declare
from django_mq.errors import PublishingStopped
from django_mq.management import lines
from django_mq.models import Message
from django_mq.stores.registry import shared_store
from tests.services.processes import tethered
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from tests.commands.conftest import Run

pytestmark = pytest.mark.django_db(transaction=True)

ALIAS = "default"
COLUMNS, ROWS = 40, 8
#: Makes its standard input the terminal that Ctrl-C is typed at.
AT_THE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'django', *sys.argv[1:]])"
)
#: A colour of text or background, except the terminal's own.
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:[349][0-7]|[34]8;[\d;]+|10[0-7])[;m]")
#: What comes before each picture of the watcher.
REDRAW = "\x1b[H\x1b[J"


@pytest.fixture(autouse=True)
def orders(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": ALIAS}
    declare(shared_store(ALIAS), "orders")


@pytest.fixture
def environment(process_environment: Callable[[str], dict[str, str]]) -> dict[str, str]:
    found = process_environment(ALIAS)
    kept = {name: value for name, value in found.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    return kept | {"TERM": "xterm-256color"}


class Terminal:
    """A small terminal with a command at it."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self._screen, line = pty.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.set_blocking(self._screen, False)
        command = tethered([sys.executable, "-c", AT_THE_TERMINAL, *arguments], death_signal=signal.SIGKILL)
        self.process = subprocess.Popen(
            command, env=environment, stdin=line, stdout=line, stderr=line, start_new_session=True
        )
        os.close(line)
        self._seen = b""

    @property
    def seen(self) -> str:
        """All that it has shown."""
        try:
            while piece := os.read(self._screen, 65_536):
                self._seen += piece
        except OSError:
            pass  # nothing more now, or, once the command has ended, for good
        return self._seen.decode()

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.seen, lambda: f"{text!r} in {self.seen!r}")

    def ended(self) -> int:
        wait_until(lambda: self.process.poll() is not None, lambda: f"its end after {self.seen!r}")
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(environment, *arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_the_watcher_fits_a_small_terminal_and_ends_with_ctrl_c(
    terminal: Callable[..., Terminal], environment: dict[str, str], tmp_path: Path
) -> None:
    for number in range(2 * ROWS):
        declare(shared_store(ALIAS), f"a queue with a name too long for this terminal {number}")
    # As if the library were not installed.
    (tmp_path / "sitecustomize.py").write_text('import sys; sys.modules["textual"] = None')
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    watcher = terminal("mq_top", "--interval", "0.2")
    watcher.wait_for(REDRAW)

    publish("orders")
    # What waits longest stands first.
    wait_until(lambda: any("orders" in picture for picture in pictures(watcher)))
    watcher.type("\x03")

    assert watcher.ended() == 0
    assert "Traceback" not in watcher.seen
    for picture in pictures(watcher)[:-1]:
        assert len(picture.splitlines()) <= ROWS
        assert max(map(len, picture.splitlines())) <= COLUMNS
    assert watcher.seen.count("pip install 'django-mq[top]'") == 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("end", "options"), [("q", []), ("\x03", ["--no-color"]), (signal.SIGTERM, [])], ids=["q", "Ctrl-C", "TERM"]
)
def test_the_program_gives_the_terminal_back(
    terminal: Callable[..., Terminal], end: str | int, options: list[str]
) -> None:
    program = terminal("mq_top", *options)
    program.wait_for("DONE/s")  # after the first look

    if isinstance(end, str):
        program.type(end)
    else:
        program.process.send_signal(end)

    assert program.ended() == 0
    assert "Traceback" not in program.seen
    on, off = (program.seen.rfind(f"\x1b[?1049{mode}") for mode in "hl")
    assert -1 < on < off
    assert bool(COLOUR.search(program.seen)) == (not options)


def test_one_look_is_whole_and_does_not_clear_the_screen(terminal: Callable[..., Terminal]) -> None:
    for number in range(2 * ROWS):
        declare(shared_store(ALIAS), f"queue-{number}")

    watcher = terminal("mq_top", "--once")

    assert watcher.ended() == 0
    assert REDRAW not in watcher.seen
    assert watcher.seen.count("queue-") == 2 * ROWS


def pictures(watcher: Terminal) -> list[str]:
    return watcher.seen.split(REDRAW)[1:]


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("no\n", 1, "CommandError: Nothing was removed."),
        ("\x04", 1, "CommandError: Nothing was removed."),
        ("yes\n", 0, "1 message removed from queue 'orders'."),
    ],
    ids=["no", "Ctrl-D", "yes"],
)
def test_a_question_takes_any_answer(terminal: Callable[..., Terminal], typed: str, code: int, said: str) -> None:
    publish("orders")
    purge = terminal("mq_purge", "orders")
    purge.wait_for("[yes/no] ")

    purge.type(typed)

    assert purge.ended() == code
    assert said in re.sub(r"\x1b\[[\d;]*m", "", purge.seen)
    assert "Traceback" not in purge.seen
    assert Message.objects.using(ALIAS).count() == (0 if code == 0 else 1)


def test_a_reader_who_has_seen_enough_is_no_error(environment: dict[str, str]) -> None:
    publish_many([("orders", "x" * 100_000)] * 3)
    command = [sys.executable, "-m", "django", "mq_browse", "orders", "--json"]
    browse = subprocess.Popen(
        tethered(command, death_signal=signal.SIGKILL),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert browse.stdout is not None
    browse.stdout.read(1)

    browse.stdout.close()

    assert browse.stderr is not None
    with browse.stderr:
        assert browse.stderr.read() == b""
    assert browse.wait() == 0


def test_the_watcher_goes_on_while_the_database_is_away(environment: dict[str, str], free_port: int) -> None:
    command = [sys.executable, "-m", "django", "mq_top", "--json", "--count", "2", "--interval", "0.2"]
    away = {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql"}
    away["DATABASE_URL"] = f"postgresql://nobody@127.0.0.1:{free_port}/nothing"
    ended = subprocess.run(
        tethered(command, death_signal=signal.SIGKILL),
        env={**environment, **away},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    looks = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ["cannot be used now" in look["error"] for look in looks] == [True, True]
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_full_disk_is_a_sentence(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            tethered([sys.executable, "-m", "django", "mq_queues"], death_signal=signal.SIGKILL),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert ended.stderr == "CommandError: The output cannot be written: [Errno 28] No space left on device\n"
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mq_publish", "orders", "-"], "There is no standard input"),
        (["mq_publish", "orders", "--lines"], "There is no standard input"),
        (["mq_purge", "orders"], "Give --yes"),
        (["mq_cancel", "--queue", "orders"], "Give --yes"),
    ],
)
def test_no_standard_input_at_all_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(CommandError, match=said):
        run(*arguments)


def test_who_is_interrupted_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Impatient())

    with pytest.raises(SystemExit, match="130"):
        run("mq_publish", "orders", "-")

    assert capsys.readouterr().err == "Interrupted: what was done before remains done.\n"


class Impatient:
    """A standard input at which Ctrl-C is typed."""

    @property
    def buffer(self) -> Impatient:
        return self

    def read(self) -> bytes:
        raise KeyboardInterrupt


def test_whoever_interrupts_lines_is_told_how_many_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BATCH", 2)

    def typed() -> Iterator[bytes]:
        yield from (b"1\n", b"2\n", b"3\n")
        raise KeyboardInterrupt

    with pytest.raises(PublishingStopped, match=r"Interrupted: .* Published before it: 2") as stopped:
        lines.publish_lines(typed(), OutgoingMessage(queue="orders"), using=ALIAS)

    assert stopped.value.published == Message.objects.using(ALIAS).count() == 2
