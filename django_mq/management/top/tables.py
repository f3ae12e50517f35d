"""The tables of the program: the cells of a line, and what sorts it.

Cells are texts with styles. What messages, queues and workers are called is never read as markup.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from django_mq.diagnosis.state.alerts import AlertKind, delivery
from django_mq.diagnosis.state.fleet import supplies
from django_mq.formats import PLAIN
from django_mq.management.tables import (
    QUEUE_HEADINGS,
    WORKER_HEADINGS,
    printable,
    queue_cells,
    queue_remarks,
    shortened,
    worker_cells,
)
from django_mq.management.top.curve import Curve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.running import RunningMessage
    from django_mq.management.top.look import Look

#: Colours of the terminal's own palette.
BAD: Final = "bold red"
WARNING: Final = "yellow"
GOOD: Final = "green"
CURVE: Final = "cyan"
IDLE: Final = "dim"
#: The longest name that is shown whole, on a wide and on a narrow terminal, and the characters of a curve.
LONGEST, NARROW_LONGEST = 32, 20
CURVE_WIDTH, NARROW_CURVE_WIDTH = 30, 12

QUEUE, READY, SCHEDULED, RETRYING, CLAIMED, DEAD, OLDEST = QUEUE_HEADINGS
#: As important as they stand to the left: a narrow terminal shows the first ones.
QUEUES: Final = (QUEUE, READY, OLDEST, "DONE/s", "", DEAD, "STATE", RETRYING, CLAIMED, SCHEDULED, "CONSUMERS", "")
RUNNING: Final = ("HANDLER", "RUNS FOR", "USUALLY", "95 %", "TIMES", "WORKER", "QUEUE", "TYPE", "MESSAGE")
WORKERS: Final = tuple(heading or "STATE" for heading in WORKER_HEADINGS)


class TableLine(NamedTuple):
    """A line of a table: its cells, and a value to sort by for each."""

    cells: tuple[Text, ...]
    keys: tuple[Any, ...]

    def has(self, words: str) -> bool:
        """Return whether a cell has these words, also where it is cut off."""
        texts = (
            *(cell.plain.casefold() for cell in self.cells),
            *(key for key in self.keys if isinstance(key, str)),
        )
        return any(words in text for text in texts)


class LineOrder(NamedTuple):
    """The column that sorts a table, and whether the order is reversed; without one, the order given."""

    column: int | None = None
    reverse: bool = False

    def applied(self, lines: Sequence[TableLine]) -> list[TableLine]:
        """Return the lines in order: texts from A, numbers from the largest, unless reversed."""
        column = self.column
        if column is None:
            return list(reversed(lines)) if self.reverse else list(lines)
        falls = bool(lines) and not isinstance(lines[0].keys[column], str)
        return sorted(lines, key=lambda line: line.keys[column], reverse=falls != self.reverse)

    def next(self, columns: int) -> LineOrder:
        """Return the order by the next column; after the last one, the order given."""
        following = 0 if self.column is None else self.column + 1
        return LineOrder(following if following < columns else None)


class Curves:
    """The curves of all queues: what is ready, and what is finished a second."""

    def __init__(self) -> None:
        self.ready: defaultdict[str, Curve] = defaultdict(Curve)
        self.done: defaultdict[str, Curve] = defaultdict(Curve)
        self.all_done = Curve()

    def add(self, slot: int, look: Look) -> None:
        for queue in look.queues:
            self.ready[queue.name].add(slot, queue.ready)
            if look.rates is not None:
                self.done[queue.name].add(slot, look.rates.get(queue.name, 0.0))
        if look.done_per_second is not None:
            self.all_done.add(slot, look.done_per_second)
        for curves in (self.ready, self.done):
            for name in curves.keys() - {queue.name for queue in look.queues}:
                del curves[name]


def cell(words: str, style: str = "", *, right: bool = False) -> Text:
    """Return a text without characters that control a terminal."""
    return Text(printable(words), style, justify="right" if right else "left", no_wrap=True)


def curve_width(*, wide: bool) -> int:
    """Return the characters of a curve."""
    return CURVE_WIDTH if wide else NARROW_CURVE_WIDTH


def queue_lines(look: Look, curves: Curves, *, wide: bool) -> list[TableLine]:
    """Return the lines of the queues."""
    supply = supplies(look.workers)
    return [_queue(queue, look, supply[queue.name].awake, curves, wide=wide) for queue in look.queues]


def _queue(queue: QueueState, look: Look, awake: int, curves: Curves, *, wide: bool) -> TableLine:
    width, left = curve_width(wide=wide), look.unwanted.get(queue.name, 0)
    remarks = queue_remarks(queue, awake, left)
    name, ready, scheduled, retrying, claimed, dead, oldest = queue_cells(queue)
    kind = delivery(queue, awake, left)
    late = {None: "", AlertKind.LATE: BAD}.get(kind, WARNING)
    rate = None if look.rates is None else look.rates.get(queue.name, 0.0)
    idle = IDLE if kind is None and not (queue.ready or queue.claimed or queue.dead_letters or rate) else ""
    cells = (
        cell(shortened(name, LONGEST if wide else NARROW_LONGEST), late or idle),
        cell(ready, idle, right=True),
        cell(oldest, late or idle, right=True),
        cell(PLAIN.rate(rate), GOOD if rate else idle, right=True),
        cell(curves.done[queue.name].drawn(width), CURVE),
        cell(dead, BAD if queue.new_dead_letters and queue.dead else idle, right=True),
        cell(shortened(remarks, LONGEST), late or (BAD if queue.new_dead_letters else "")),
        cell(retrying, WARNING if queue.retrying else idle, right=True),
        cell(claimed, idle, right=True),
        cell(scheduled, idle, right=True),
        cell(PLAIN.number(queue.consumers), idle, right=True),
        cell(curves.ready[queue.name].drawn(width), CURVE),
    )
    keys = (
        *(name.casefold(), queue.ready, queue.waited_seconds, rate or 0.0, rate or 0.0, queue.dead_letters),
        *(remarks.casefold(), queue.retrying, queue.claimed, queue.scheduled, queue.consumers, queue.ready),
    )
    return TableLine(cells, keys)


def running_lines(running: Iterable[RunningMessage]) -> list[TableLine]:
    """Return the lines of what runs."""
    return [_running(one) for one in running]


def _running(one: RunningMessage) -> TableLine:
    p50, p95 = (one.usual.p50, one.usual.p95) if one.usual else (None, None)
    times, style = one.times_usual, BAD if one.is_unusual else ""
    cells = (
        cell(shortened(one.handler, LONGEST), style),
        cell(PLAIN.precise(one.seconds), style, right=True),
        cell(PLAIN.precise(p50), right=True),
        cell(PLAIN.precise(p95), right=True),
        cell(PLAIN.digits(times) if times >= 1 else "-", style, right=True),
        cell(one.worker),
        cell(shortened(one.queue, LONGEST)),
        cell(shortened(one.type, LONGEST)),
        cell(str(one.message_id), IDLE),
    )
    keys = (
        *(one.handler.casefold(), one.seconds, p50 or 0.0, p95 or 0.0, times),
        *(one.worker.casefold(), one.queue.casefold(), one.type.casefold(), str(one.message_id)),
    )
    return TableLine(cells, keys)


def worker_lines(look: Look) -> list[TableLine]:
    """Return the lines of the workers."""
    return [_worker(one) for one in look.workers]


def _worker(one: WorkerStatus) -> TableLine:
    numbers = {
        "ID": one.id,
        "PID": one.pid,
        "HELD": one.held,
        "CREDIT": one.credit,
        "BUSY": one.busy or 0,
        "MEMORY": one.memory_bytes or 0,
        "UP": one.up_seconds,
        "LAST BEAT": one.heartbeat_seconds,
    }
    words = dict(zip(WORKERS, worker_cells(one), strict=True))
    style = BAD if one.stale else WARNING
    marked = {"NAME", "STATE"} if words["STATE"] else set()
    return TableLine(
        tuple(cell(text, style if name in marked else "", right=name in numbers) for name, text in words.items()),
        tuple(numbers.get(name, text.casefold()) for name, text in words.items()),
    )
