"""Log lines, kept off a terminal that a program draws on."""

from __future__ import annotations

import io
import logging
import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The last pieces of text that are kept.
KEPT = 200


class _Last(io.TextIOBase):
    """A stream that keeps the last pieces written to it."""

    def __init__(self) -> None:
        self.pieces: deque[str] = deque(maxlen=KEPT)

    def write(self, text: str, /) -> int:
        self.pieces.append(text)
        return len(text)


@contextmanager
def off_the_terminal() -> Iterator[None]:
    """Keep the last log lines that would go to the terminal, and print them at the end."""
    kept = _Last()
    moved = [(handler, handler.setStream(kept)) for handler in _at_the_terminal()]
    try:
        yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)
        sys.stderr.write("".join(kept.pieces))


def _at_the_terminal() -> list[logging.StreamHandler[Any]]:
    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    handlers = {handler for logger in (logging.root, *named) for handler in logger.handlers}
    return [one for one in handlers if isinstance(one, logging.StreamHandler) and _is_terminal(one.stream)]


def _is_terminal(stream: Any) -> bool:
    """Return whether a handler's stream is a terminal. A file may not be open yet, or not any more."""
    is_terminal = getattr(stream, "isatty", None)
    return is_terminal is not None and not getattr(stream, "closed", False) and bool(is_terminal())
