"""Analyse all files without a queue and without Django, in a pool of processes."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from library.analysis import BROKEN, Facts, analyse_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from library.demo.outcomes import Outcomes

#: Files handed to a process at a time.
CHUNK = 20


def analyse_all(locations: Mapping[str, str]) -> Outcomes:
    """Return what is in each file, given its path and its location."""
    # Fresh processes: they inherit neither connections nor signal handlers.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=fresh, initializer=ignore_interrupts) as pool:
        try:
            return dict(zip(locations, pool.map(outcome, locations.values(), chunksize=CHUNK), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def outcome(location: str) -> Facts | None:
    """Return what is in a file, None if it is broken."""
    try:
        return analyse_file(location)
    except BROKEN:
        return None
