"""Tables and texts for a terminal, without characters that control it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from django_mq.diagnosis.state.alerts import AlertKind, delivery
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState

#: The headings of ``queue_cells``.
QUEUE_HEADINGS = ("QUEUE", "READY", "SCHEDULED", "RETRYING", "CLAIMED", "DEAD", "OLDEST READY")
#: The headings of ``worker_cells``.
WORKER_HEADINGS = (
    *("ID", "NAME", "KIND", "PID", "VERSION", "QUEUES", "HELD", "CREDIT", "BUSY", "MEMORY", "UP", "LAST BEAT", ""),
)
#: What a worker reports of itself, and the remark about it.
REPORTED = [("stopping", "stopping"), ("still", "its loop stands still")]
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
    oldest = PLAIN.age(queue.oldest_ready_seconds, is_exact=queue.is_oldest_exact)
    counts = (queue.ready, queue.scheduled, queue.claimed, queue.dead)
    ready, scheduled, claimed, dead = map(PLAIN.bounded, counts)
    retrying = PLAIN.bounded(queue.retrying, more=queue.is_retrying_cut and queue.retrying > 0)
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


def worker_cells(worker: WorkerStatus) -> tuple[str, ...]:
    """Return what a worker session says of itself, as of its last heartbeat, and a remark."""
    return (
        str(worker.id),
        worker.name,
        worker.kind,
        str(worker.pid),
        worker.version,
        shortened(",".join(worker.queues), 40),
        PLAIN.number(worker.held),
        PLAIN.number(worker.credit) if worker.credit else "-",
        f"{worker.busy}/{worker.slots}" if worker.slots else "-",
        PLAIN.size(worker.memory_bytes),
        PLAIN.duration(worker.up_seconds),
        PLAIN.duration(worker.heartbeat_seconds),
        worker_remarks(worker),
    )


def worker_remarks(worker: WorkerStatus) -> str:
    """Return what the worker does, or was told; nothing if it works."""
    if worker.stale:
        return "stale"
    told = worker.conduct != WorkerMode.WORK
    words = (
        [f"told: {worker.conduct}"] if told else [word for state, word in REPORTED if worker.is_shown_as(state)]
    )
    if worker.given_credit:
        words.append(f"credit {PLAIN.number(worker.given_credit)} each")
    return ", ".join(words)


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
