"""The program: queues, what runs, workers and what needs a look, with keys to sort, filter and pause."""

from __future__ import annotations

import signal
import time
from asyncio import get_running_loop
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from django_mq.diagnosis.state.fleet import slots_in_use
from django_mq.diagnosis.state.question import LOST_SECONDS, MOST_THREADS
from django_mq.formats import PLAIN, plural
from django_mq.management.top.logs import off_the_terminal
from django_mq.management.top.look import Look
from django_mq.management.top.looker import Looker
from django_mq.management.top.tables import (
    BAD,
    CURVE,
    GOOD,
    IDLE,
    QUEUES,
    RUNNING,
    WARNING,
    WORKERS,
    Curves,
    LineOrder,
    TableLine,
    cell,
    curve_width,
    queue_lines,
    running_lines,
    worker_lines,
)
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from django_mq.alerts.observed import Observation
    from django_mq.management.top.look import Watch

#: The least seconds of a character of a curve.
SLOT_SECONDS: Final = 10.0
#: A terminal is wide from so many characters on.
WIDE: Final = 120
#: So many sentences about what needs a look stand above the tables, and one on a terminal with fewer lines.
MOST_SENTENCES: Final = 3
LOW: Final = 20
#: After this time without an answer, the screen says so.
SILENT_SECONDS: Final = 5.0
STYLES: Final = {Level.PROBLEM.value: BAD, Level.NOTICE.value: WARNING}
HELP: Final = """\
1 2 3 4   queues, what runs, workers, what needs a look
s         sort by the next column, or click on a heading
S         reverse the order
/         show only lines with these words;
          Enter keeps them, Escape removes them
p         pause: nothing is asked of the database
arrows    scroll, as Page Up, Page Down, Home and End do
?         this help
q         end

Unsorted, the queue whose oldest message has waited longest
comes first. USUALLY and 95 % are the median and the 95th
percentile of how long the newest messages of a type were held.
"""


class TablePage(NamedTuple):
    """A page of the program that is a table."""

    name: str
    title: str
    headings: Sequence[str]
    empty: str
    #: Columns that stay when the rest is scrolled.
    fixed: int = 1


TABS: Final = (
    TablePage("queues", "1 Queues", QUEUES, "There are no queues yet."),
    TablePage("running", "2 Running", RUNNING, "Nothing runs, as of the last heartbeats."),
    TablePage("workers", "3 Workers", WORKERS, "There are no worker sessions.", fixed=2),
)
ALERTS: Final = "alerts"
NAMES: Final = (*(tab.name for tab in TABS), ALERTS)


class Looked(Message):
    """A look of the thread that looks, or its exception."""

    def __init__(self, looker: Looker, found: Look | Exception) -> None:
        self.looker, self.found = looker, found
        super().__init__()


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[Any] = [Binding("escape,question_mark,q,enter,space", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        yield Static(Text(HELP))


class Program(App[Exception]):
    """The screen of ``mq_top``. It ends with an exception if a look raised one."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "mq_top"
    CSS = """
    Screen { overflow: hidden; }
    #head { height: 2; }
    #sentences { height: auto; max-height: 4; }
    TabbedContent { height: 1fr; }
    Tabs { height: 2; }
    TabPane { padding: 0; height: 1fr; }
    DataTable { height: 1fr; background: ansi_default; }
    DataTable, VerticalScroll {
        scrollbar-size: 1 1;
        scrollbar-color: ansi_bright_black;
        scrollbar-background: ansi_default;
    }
    DataTable > .datatable--header { background: ansi_default; color: ansi_default; text-style: bold reverse; }
    DataTable > .datatable--fixed { background: ansi_default; color: ansi_default; }
    .empty { height: 1fr; display: none; }
    #filter { display: none; border: none; height: 1; padding: 0; }
    Help { align: center middle; }
    Help Static { width: 70; height: auto; border: round ansi_default; padding: 1 2; }
    """
    BINDINGS: ClassVar[Any] = [
        *(Binding(str(number), f"show('{name}')", name, show=False) for number, name in enumerate(NAMES, 1)),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("p,space", "pause", "Pause"),
        Binding("question_mark,h", "help", "Help"),
        Binding("q", "end", "Quit"),
        Binding("escape", "clear", show=False),
        Binding("ctrl+c", "end", show=False, priority=True),
    ]

    def __init__(self, watch: Watch, interval: float) -> None:
        # The terminal's own colours; none with NO_COLOR.
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self._watch, self._interval = watch, interval
        self._slot_seconds = max(SLOT_SECONDS, interval)
        self._look = Look()
        self._looked_at = ""
        self._error = ""
        self._paused = False
        self._words = ""
        self._sorting = {tab.name: LineOrder() for tab in TABS}
        self._curves = Curves()
        self._lookers: list[Looker] = []

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="sentences")
        with TabbedContent(initial=TABS[0].name):
            for tab in TABS:
                with TabPane(tab.title, id=tab.name):
                    yield DataTable(
                        id=f"{tab.name}-table", cursor_type="none", fixed_columns=tab.fixed, show_cursor=False
                    )
                    yield Static(tab.empty, classes="empty", id=f"{tab.name}-empty")
            with TabPane("4 Alerts", id=ALERTS), VerticalScroll(id="alerts-table"):
                yield Static(id="all-alerts")
        yield Input(placeholder="words in a line", id="filter", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self._draw_head()
        self.set_interval(1.0, self._tick)
        get_running_loop().add_signal_handler(signal.SIGTERM, self.action_end)
        self._begin_looking()

    def on_unmount(self) -> None:
        for looker in self._lookers:
            looker.end()

    # What the thread says.

    def _begin_looking(self) -> None:
        looker = Looker(self._watch, self._interval, lambda by, found: self.post_message(Looked(by, found)))
        looker.running = self._shown == "running"
        self._lookers.append(looker)
        looker.start()

    @property
    def _ends(self) -> bool:
        """Whether what it draws on is gone already."""
        return not self.query("#head")

    def on_looked(self, looked: Looked) -> None:
        if self._ends:
            return
        if looked.looker is not self._lookers[-1]:
            self._lookers.remove(looked.looker)  # given up as lost; it ends
            return
        if self._paused:
            return  # it was asked before
        if isinstance(looked.found, Exception):
            self.exit(looked.found)
            return
        self._error = looked.found.error
        if not self._error:
            self._look, self._looked_at = looked.found, PLAIN.time(datetime.now(UTC))
            self._curves.add(int(time.monotonic() // self._slot_seconds), self._look)
        self._draw()

    def _tick(self) -> None:
        looker = self._lookers[-1]
        if looker.silent_seconds < SILENT_SECONDS or self._paused or self._ends:
            return
        self._error = f"The database has not answered for {PLAIN.duration(looker.silent_seconds)}."
        self._draw_head()
        if looker.silent_seconds >= LOST_SECONDS and len(self._lookers) < MOST_THREADS:
            looker.end()
            self._begin_looking()

    # What it shows.

    @property
    def _shown(self) -> str:
        return self.query_one(TabbedContent).active

    def _table(self, name: str) -> DataTable[Text]:
        return self.query_one(f"#{name}-table", DataTable)

    def _draw(self) -> None:
        self._draw_head()
        self._draw_alerts()
        shown = self._shown
        if shown != ALERTS:
            self._draw_table(shown)

    def _draw_head(self) -> None:
        look, first, second = self._look, Text(), Text()
        first.append("mq_top ", "bold").append_text(cell(self._watch.alias)).append(f"  {self._looked_at}")
        if self._paused:
            first.append("  PAUSED", "bold reverse")
        if self._words:
            first.append("  only ").append_text(cell(repr(self._words), WARNING))
        if self._error:
            first.append("  ").append_text(cell(" ".join(self._error.split()), BAD))
        slots, counts = slots_in_use(look.workers), look.counts
        second.append(plural(len(look.workers), "worker"))
        second.append(f", {counts['stale']} stale", BAD if counts["stale"] else IDLE)
        if slots.of:
            second.append(f"   slots {slots.used}/{slots.of} ({PLAIN.percent(slots.used / slots.of)})")
        second.append(f"   {PLAIN.number(counts['held'])} held")
        if (done := look.done_per_second) is not None:
            second.append(f"   {PLAIN.rate(done)} done/s ", GOOD if done else IDLE)
            second.append(self._curves.all_done.drawn(curve_width(wide=self._is_wide)), CURVE)
        self._put("head", [first, second])

    def _put(self, name: str, lines: list[Text]) -> None:
        """Show lines, each cut off where the terminal ends."""
        for line in lines:
            line.truncate(self.size.width, overflow="ellipsis")
        self.query_one(f"#{name}", Static).update(Text("\n").join(lines))

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= WIDE

    def _draw_alerts(self) -> None:
        found = self._look.observations
        lines = [_sentence(one) for one in found[: MOST_SENTENCES if self.size.height >= LOW else 1]]
        if more := len(found) - len(lines):
            lines.append(Text(f"{more} more: press 4.", IDLE))
        self._put("sentences", [] if self._shown == ALERTS else lines)
        matching = [line for line in map(_sentence, found) if self._words in line.plain.casefold()]
        self.query_one("#all-alerts", Static).update(
            Text("\n").join(matching) if matching else Text("Nothing needs a look.", GOOD)
        )
        self.query_one(TabbedContent).get_tab(ALERTS).label = f"4 Alerts ({len(found)})"

    def _draw_table(self, name: str) -> None:
        [tab] = [tab for tab in TABS if tab.name == name]
        lines = self._lines(name)
        if lines is None:
            return
        lines = self._sorting[name].applied([line for line in lines if line.has(self._words)])
        table = self._table(name)
        if lines:
            _fill(table, self._headings(tab, lines[0]), [line.cells for line in lines])
        table.display = bool(lines)
        self.query_one(f"#{name}-empty").display = not lines

    def _lines(self, name: str) -> list[TableLine] | None:
        """Return the lines of a table; None if the last look did not ask for them."""
        look = self._look
        if name == "running":
            return None if look.running is None else running_lines(look.running)
        if name == "workers":
            return worker_lines(look)
        return queue_lines(look, self._curves, wide=self._is_wide)

    def _headings(self, tab: TablePage, first: TableLine) -> list[Text]:
        sorting = self._sorting[tab.name]
        minutes = curve_width(wide=self._is_wide) * self._slot_seconds / 60
        names = [heading or f"LAST {PLAIN.digits(minutes)} MIN" for heading in tab.headings]
        if sorting.column is not None:
            names[sorting.column] += " ↑" if sorting.reverse else " ↓"
        return [Text(name, justify=one.justify) for name, one in zip(names, first.cells, strict=True)]

    # What keys and the mouse do.

    def action_show(self, name: str) -> None:
        self.query_one(TabbedContent).active = name

    def on_tabbed_content_tab_activated(self) -> None:
        shown = self._shown
        self.query_one(f"#{shown}-table").focus()
        if self._lookers:
            looker = self._lookers[-1]
            looker.running = shown == "running"
            if looker.running:
                looker.look_now()
            self._draw()

    def action_sort(self) -> None:
        self._sort_by(lambda tab, now: now.next(len(tab.headings)))

    def action_reverse(self) -> None:
        self._sort_by(lambda _, now: now._replace(reverse=not now.reverse))

    def on_data_table_header_selected(self, selected: DataTable.HeaderSelected) -> None:
        column = selected.column_index
        self._sort_by(lambda _, now: LineOrder(column, reverse=now.column == column and not now.reverse))

    def _sort_by(self, change: Callable[[TablePage, LineOrder], LineOrder]) -> None:
        for tab in TABS:
            if tab.name == self._shown:
                self._sorting[tab.name] = change(tab, self._sorting[tab.name])
                self._draw_table(tab.name)

    def action_filter(self) -> None:
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._words = changed.value.casefold()
        self._draw()

    def on_input_submitted(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one(f"#{self._shown}-table").focus()

    def action_clear(self) -> None:
        self.query_one("#filter", Input).value = ""
        self.on_input_submitted()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._lookers[-1].pause(paused=self._paused)
        self._draw_head()

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_end(self) -> None:
        self.exit()

    def on_resize(self) -> None:
        if self._lookers:
            self._draw()


def _sentence(one: Observation) -> Text:
    words = cell(f"{one.level}  ", STYLES.get(one.level, ""))
    about = cell(f"{one.about}: " if one.about else "", "bold")
    return Text.assemble(words, about, cell(" ".join(one.sentence.split())))


def _fill(table: DataTable[Text], headings: Sequence[Text], rows: Sequence[tuple[Text, ...]]) -> None:
    """Show the rows, changing only cells that differ, so that the table stays scrolled where it is."""
    shown = [(column.label.plain, column.label.justify) for column in table.ordered_columns]
    if shown != [(heading.plain, heading.justify) for heading in headings]:
        table.clear(columns=True)
        table.add_columns(*headings)
    for number, row in enumerate(rows[: table.row_count]):
        for place, (old, new) in enumerate(zip(table.get_row_at(number), row, strict=True)):
            if old != new or old.style != new.style:
                table.update_cell_at(Coordinate(number, place), new, update_width=True)
    for row in rows[table.row_count :]:
        table.add_row(*row)
    while table.row_count > len(rows):
        table.remove_row(table.coordinate_to_cell_key(Coordinate(table.row_count - 1, 0)).row_key)


def show(watch: Watch, interval: float) -> None:
    """Run until a key or a signal ends it. Raises what a look raised."""
    with off_the_terminal():
        program = Program(watch, interval)
        error = program.run()
    if error is not None:
        raise error
    if program.return_code:
        raise SystemExit(program.return_code)
