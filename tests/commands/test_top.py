"""mq_top as a program, driven by keys: what it shows, and that it costs no more than the plain one."""

from __future__ import annotations

import asyncio
import io
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from textual.widgets import DataTable, Static

from django_mq.api import pause, publish
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state.flow import Flow
from django_mq.diagnosis.state.running import unusual
from django_mq.errors import UnknownQueue
from django_mq.management.top.curve import Curve
from django_mq.management.top.logs import off_the_terminal
from django_mq.management.top.look import KEEP_SECONDS, Watch, glance
from django_mq.management.top.program import ALERTS, Program
from django_mq.management.top.tables import LineOrder, TableLine, cell
from django_mq.models import History, Message, Queue, WorkerSession
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pytest_django import Settings
    from textual.pilot import Pilot

ALIAS = "default"
HOSTILE = "a [bold]name[/bold] \x1b[2J"


@pytest.fixture
def site(settings: Settings) -> str:
    """Queues with a backlog, with a name that is no markup, and without messages; a message that runs too long."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": ALIAS}
    for name in ("orders", "mails", HOSTILE):
        declare(shared_store(ALIAS), name)
    for number in range(3):
        publish("mails", number)
    publish("orders")
    pause("orders", reason="[red]holiday[/red]")
    runs_too_long()
    return ALIAS


def runs_too_long() -> None:
    now = datetime.now(UTC)
    # A heartbeat of which no time has passed, however slow the machine is.
    session = WorkerSession.objects.create(
        name="worker-1",
        kind="native",
        host="h",
        pid=7,
        version="1",
        queues=["mails"],
        credit=20,
        started_at=now,
        heartbeat_at=now + timedelta(hours=1),
        deadline=now + timedelta(hours=2),
    )
    mails = Queue.objects.get(name="mails")
    message = Message.objects.filter(queue=mails).earliest("pk")
    message.state, message.session, message.claim, message.claimed_at = Message.Status.CLAIMED, session, 1, now
    message.type = "report"
    message.save()
    session.running = [[message.pk, 1, "shop.report", 1320.0]]
    session.save()
    begin = now - timedelta(minutes=30)
    times = {"published_at": begin, "ready_at": begin, "claimed_at": begin}
    given = {"queue_name": "mails", "priority": 4, "outcome": 1, "attempts": 0, "type": "report"}
    for _ in range(10):
        end = begin + timedelta(seconds=2)
        History.objects.create(message_id=uuid4(), **given, **times, finished_at=end)


def use(watch: Watch, steps: Callable[[Program, Pilot[Any]], Awaitable[None]]) -> Program:
    """Run the program on a small terminal, with these steps."""
    program = Program(watch, interval=0.2)

    async def run() -> None:
        async with program.run_test(size=(80, 24)) as pilot:
            await steps(program, pilot)

    asyncio.run(run())
    return program


async def until(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
    """Wait until the program shows it."""
    async with asyncio.timeout(120):
        while not condition():
            await pilot.pause(0.02)


def text_of(program: Program, name: str) -> str:
    return str(program.query_one(f"#{name}", Static).content)


def column(program: Program, name: str, number: int = 0) -> list[str]:
    """Return the cells of a column as they are shown."""
    table: DataTable[Any] = program.query_one(f"#{name}-table", DataTable)
    return [str(table.get_row_at(row)[number]) for row in range(table.row_count)]


@pytest.mark.django_db(transaction=True)
def test_keys_show_sort_filter_and_pause(site: str) -> None:
    async def steps(program: Program, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(column(program, "queues")) == 3)
        assert "\\x1b[2J" not in column(program, "queues")[2], "cut off"
        assert "a [bold]name[/bold]" in column(program, "queues")[2]
        assert "orders: The reason: [red]holiday[/red]." in text_of(program, "sentences")
        assert "1 worker, 0 stale" in text_of(program, "head")

        await pilot.press("s", "s")
        assert column(program, "queues")[0] == "mails"
        await pilot.press("S")
        assert column(program, "queues")[-1] == "mails"

        await pilot.press("slash", *"NAME")
        await until(pilot, lambda: len(column(program, "queues")) == 1)
        await pilot.press("enter")
        assert "only 'name'" in text_of(program, "head")
        await pilot.press("escape")
        await until(pilot, lambda: len(column(program, "queues")) == 3)

        await pilot.press("2")
        await until(pilot, lambda: column(program, "running") == ["shop.report"])
        assert [column(program, "running", number)[0] for number in (1, 2)] == ["22 min", "2 s"]
        await pilot.press("3")
        assert column(program, "workers", 1) == ["worker-1"]
        await pilot.press("4")
        assert program.focused is program.query_one(f"#{ALERTS}-table")
        assert "shop.report has been running for 22 min" in text_of(program, "all-alerts")

        await pilot.press("p")
        assert "PAUSED" in text_of(program, "head")
        await pilot.press("question_mark")
        assert len(program.screen_stack) == 2
        await pilot.press("escape", "q")

    program = use(Watch(site), steps)

    assert (program.return_code, program.return_value) == (0, None)


@pytest.mark.django_db(transaction=True)
def test_a_look_costs_no_more_statements_than_the_plain_one(site: str) -> None:
    flow, watch = Flow(site), Watch(site)

    def plain() -> None:
        glance(site, [], flow)
        unusual(using=site)

    usual, first = statements(plain), statements(lambda: watch.look(running=True))

    assert statements(lambda: watch.look(running=False)) == usual - 3
    assert statements(lambda: watch.look(running=True)) == usual - 1
    # So many looks at the default interval share what is kept.
    looks = KEEP_SECONDS / 2
    assert first <= usual + looks


def statements(ask: Callable[[], object]) -> int:
    with CaptureQueriesContext(connections[ALIAS]) as seen:
        ask()
    words = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    return sum(not query["sql"].startswith(words) for query in seen.captured_queries)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_a_sentence_until_it_is_back(
    site: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = connections.databases[site]
    place = database["NAME"]
    monkeypatch.setitem(database, "NAME", str(tmp_path / "away" / "django_mq.sqlite3"))

    async def steps(program: Program, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "cannot be used now" in text_of(program, "head"))
        database["NAME"] = place
        await until(pilot, lambda: len(column(program, "queues")) == 3)
        assert "cannot be used now" not in text_of(program, "head")

    use(Watch(site), steps)


@pytest.mark.django_db(transaction=True)
def test_a_queue_that_does_not_exist_ends_it(site: str) -> None:
    async def steps(program: Program, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: program.return_value is not None)

    assert isinstance(use(Watch(site, ["ordres"]), steps).return_value, UnknownQueue)


def test_log_lines_wait_until_the_terminal_is_free(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    terminal = Screen()
    logger, handler = logging.getLogger("tests.top"), logging.StreamHandler(terminal)
    not_open_yet = logging.FileHandler(tmp_path / "log", delay=True)
    logger.addHandler(handler)
    logger.addHandler(not_open_yet)
    try:
        with off_the_terminal():
            logger.warning("An extension could not look.")
            assert terminal.getvalue() == capsys.readouterr().err == ""
        assert capsys.readouterr().err == "An extension could not look.\n"
        assert handler.stream is terminal
    finally:
        logger.removeHandler(handler)
        logger.removeHandler(not_open_yet)
        not_open_yet.close()


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_curve_has_the_mean_of_each_slot() -> None:
    curve = Curve()
    assert curve.drawn(3) == "   "

    for slot, value in ((1, 0.0), (2, 0.001), (4, 6.0), (4, 8.0), (5, 3.5)):
        curve.add(slot, value)

    assert curve.drawn(6) == " ▁▂ █▅"
    assert curve.drawn(1) == "█"


def test_texts_are_sorted_from_a_and_numbers_from_the_largest() -> None:
    lines = [TableLine((cell(name), cell(str(size))), (name, size)) for name, size in (("b", 2), ("a", 10))]
    order = LineOrder()

    assert order.applied(lines) == lines
    for column_number, first in ((0, "a"), (1, "a")):
        order = order.next(2)
        assert order.column == column_number
        assert order.applied(lines)[0].keys[0] == first
        assert order._replace(reverse=True).applied(lines)[0].keys[0] == "b"
    assert order.next(2) == LineOrder()
