"""Fork children in a test, while another thread of the parent holds locks."""

from __future__ import annotations

import os
import select
import signal
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def exit_code_of_child(work: Callable[[], int | None]) -> int:
    """Fork, do the work in the child, and return its exit code: what ``work`` returns, negative if it hangs.

    The parent watches the child, because it may hang before its first line, in what is called at a fork. It would
    hang for ever then, and keep the pipes of the test process open.
    """
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside other tests' threads
        child = os.fork()
    if not child:
        code: int | None = 1  # an exception must not take the child back into the tests
        try:
            code = work()
        finally:
            os._exit(code or 0)
    os.close(write_end)
    poller = select.poll()  # unlike select(), it takes any number of open files
    poller.register(read_end, select.POLLIN)
    has_ended = poller.poll(PATIENCE_SECONDS * 1000)
    os.close(read_end)
    if not has_ended:
        os.kill(child, signal.SIGABRT)  # the child's faulthandler prints where it hangs
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held_by_another_thread(lock: Any) -> Iterator[None]:
    """Have another thread hold a lock."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        yield
    finally:
        over.set()
        holder.join()
