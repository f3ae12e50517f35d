"""A progress bar on a terminal; nothing in scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def watched(items: Iterable[T], *, unit: str) -> Iterable[T]:
    """Return the items as they are, with a bar on a terminal's standard error while they pass.

    The bar is tqdm's; where that is not installed, a plain count.
    """
    if not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm  # noqa: PLC0415 - an extra, and nothing that a worker needs
    except ImportError:
        return _counted(items, unit)
    return tqdm(items, unit=f" {unit}", leave=False)


def _counted(items: Iterable[T], unit: str) -> Iterator[T]:
    for number, item in enumerate(items, 1):
        yield item
        if number % 1000 == 0:
            sys.stderr.write(f"\r{PLAIN.number(number)} {unit}")
    sys.stderr.write("\r\x1b[K")
