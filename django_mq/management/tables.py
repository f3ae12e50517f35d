"""Tables and texts for a terminal, without characters that control it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from django_mq.diagnosis.state.alerts import AlertKind, delivery
from django_mq.diagnosis.state.overview import COUNT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.diagnosis.state.overview import QueueState

#: The headings of ``queue_cells``.
QUEUE_HEADINGS = ("QUEUE", "READY", "SCHEDULED", "RETRYING", "CLAIMED", "DEAD", "OLDEST READY")
#: What keeps a queue from delivering, as the admin's overview names it.
DELIVERY_WORDS = {
    AlertKind.PAUSED: "paused",
    AlertKind.UNSERVED: "no worker",
    AlertKind.QUIET: "quiet workers",
    AlertKind.UNWANTED: "not wanted",
    AlertKind.LATE: "late",
}
#: Categories of characters that control a terminal, change the direction of text or are invisible.
UNPRINTABLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
#: Units of time spans, in seconds.
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Return aligned columns under their headings; the columns in ``right`` are aligned to the right."""
    lines = [list(headings), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    ends = set(right)
    return "\n".join(_line(line, widths, ends) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: set[int]) -> str:
    placed = (
        cell.rjust(width) if number in right else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(placed).rstrip()


def queue_cells(queue: QueueState) -> tuple[str, ...]:
    """Return the queue's name, the messages in each state, and the age of the oldest ready one."""
    least = "" if queue.oldest_ready_seconds is None or queue.is_oldest_exact else "at least "
    oldest = least + span(queue.oldest_ready_seconds)
    counts = (queue.ready, queue.scheduled, queue.claimed, queue.dead)
    ready, scheduled, claimed, dead = (bounded(count, COUNT_LIMIT) for count in counts)
    retrying = bounded(queue.retrying, queue.retrying or 1 if queue.is_retrying_cut else COUNT_LIMIT)
    return queue.name, ready, scheduled, retrying, claimed, dead, oldest


def queue_remarks(queue: QueueState, awake: int, unwanted: int) -> str:
    """Return what the queue does, in the words of the admin; nothing if it runs.

    ``awake`` workers may claim, and no consumer wants so many messages.
    """
    kind, words = delivery(queue, awake, unwanted), []
    if kind is not None:
        reason = f": {queue.paused_reason}" if queue.paused_reason else ""
        words.append(f"{DELIVERY_WORDS[kind]}{reason}")
    elif queue.dead_letters_of_others:
        words.append("dead letters")
    return ", ".join([*words, "closed"] if queue.closed else words)


def printable(text: str) -> str:
    """Return the text with every control character written as its escape sequence."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelt(character) for character in text)


def _spelt(character: str) -> str:
    if unicodedata.category(character) not in UNPRINTABLE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, width: int) -> str:
    """Return the text in at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def bounded(count: int, limit: int) -> str:
    """Return a count up to ``limit`` as text: ``10,000+`` at the limit."""
    return f"{count:,}+" if count >= limit else f"{count:,}"


def span(seconds: float | None) -> str:
    """Return a time span in its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0 s``."""
    if seconds is None:
        return "-"
    left = max(0, int(seconds))
    parts: list[tuple[int, str]] = []
    for size, unit in UNITS:
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount) or "0 s"


def precise(seconds: float | None) -> str:
    """Return a time span that may be short: ``3.2 ms``, ``1.25 s``, ``2 min 5 s``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 60 else span(seconds)
