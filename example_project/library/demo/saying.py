"""Print the output of the demo."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Iterable


def say(text: str) -> None:
    """Write a line, above the progress bar if there is one."""
    tqdm.write(text)
    sys.stdout.flush()


def say_table(title: str, lines: Iterable[str]) -> None:
    """Write a title and its lines."""
    say("\n".join(["", title, *lines]))
