"""Move the clock of all stores of this process."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def moved_clock() -> Iterator[Callable[[timedelta], None]]:
    """Yield a function that moves the clock on; the clock is right again afterwards."""

    def move(by: timedelta) -> None:
        clock.offset += by

    try:
        yield move
    finally:
        clock.offset = timedelta(0)
