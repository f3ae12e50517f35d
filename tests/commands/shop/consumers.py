"""The shop's handlers write a diary: a line as each message is begun."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_mq.api import consumer
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def note(word: str) -> None:
    """Append a line to the diary, in one write."""
    diary = os.open(os.environ["SHOP_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, f"{word}\n".encode())
    os.close(diary)


@consumer("orders", credit=10)
def handle_order(message: Any) -> None:
    note(str(message.body))


def wait_for_a_signal(pipe: Connection) -> None:
    """Say that the process is here, and do nothing else."""
    pipe.send("here")
    signal.pause()


@consumer("forking")
def handle_in_a_child(message: Any) -> None:
    """Terminate a child, and note what it says of its end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=wait_for_a_signal, args=(theirs,))
    child.start()
    ours.recv()
    child.terminate()
    child.join(PATIENCE_SECONDS / 8)
    note(f"{message.body} {child.exitcode}")
    child.kill()


@consumer("gated", credit=4)
def handle_behind_a_gate(message: Any) -> None:
    """Wait, in another process, for a file that the test makes."""
    note(str(message.body))
    while not Path(os.environ["SHOP_GATE"]).exists():
        time.sleep(0.01)


@consumer("holding", credit=1)
def handle_without_giving_way(_message: Any) -> None:
    """Keep every other thread of this process from running until the test writes a byte."""
    pipe = os.open(os.environ["SHOP_PIPE"], os.O_RDWR)
    note(str(os.getpid()))
    # Unlike os.read it holds the interpreter's lock.
    ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)
    os.close(pipe)


@consumer("traced")
def handle_and_name_the_process(message: Any) -> None:
    note(f"{message.body} {os.getpid()}")


@consumer("computing")
def compute(_message: Any) -> None:
    """Compute for some two milliseconds, with the interpreter's lock."""
    sum(number * number for number in range(30_000))


HELD: list[bytes] = []


@consumer("leaking")
def leak(_message: Any) -> None:
    HELD.append(b"x" * 300_000_000)


@consumer("awaited")
async def handle_in_the_event_loop(message: Any) -> None:
    note(str(message.body))
