"""What a process of a place does, from its start until it is killed."""

from __future__ import annotations

import fcntl
import logging
import resource
import signal
import sys
import threading
import time
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.test import override_settings

from django_mq.api import consumer, publish, publish_many
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.maintenance import maintain
from django_mq.delivery.consumer.worker import Worker
from django_mq.errors import StoreError
from django_mq.periodic import duty
from django_mq.stores import connections as limits
from django_mq.stores.clock import clock as moving
from django_mq.stores.postgresql.store import RECONNECT_SECONDS, PostgreSQLSessions
from django_mq.stores.registry import private_store
from tests.proof import celery_worker
from tests.proof.errands import ERRANDS
from tests.proof.fatal import Fatal
from tests.proof.limited import consume_limited
from tests.proof.notes import DONE, SENT, note
from tests.proof.pieceworkers import PIECE_ROLES
from tests.proof.racer import race
from tests.settings.databases import from_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from django_mq.delivery.codecs import ReceivedMessage

QUEUE = "proof"


def play(order: dict[str, Any]) -> None:
    """Enter the place and do what the role says."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(threadName)s %(message)s")
    reach("default", order["url"], DISABLE_SERVER_SIDE_CURSORS=order["pooled"])
    for known in connections.all(initialized_only=True):
        del connections[known.alias]  # made, though never opened, while the nursery imported
    override_settings(DJANGO_MQ=order["mq"]).enable()
    ROLES[order["role"]](**order["options"])


def reach(alias: str, url: str, **more: Any) -> None:
    """Let an alias lead to a database."""
    connections.settings[alias] = connections.configure_settings({"default": from_url(url) | more})["default"]


def consume(
    *,
    transactional: bool = False,
    noting: bool = True,
    threads: int = 2,
    credit: int = 20,
    clock_hours: float = 0.0,
    file_bytes: int | None = None,
    hold: bool = False,
    groups: str | None = None,
    selector: str = "",
    reconnect_seconds: float = RECONNECT_SECONDS,
    idle_seconds: int = limits.IDLE_SECONDS,
    failing: int = 0,
    clock: str | None = None,
    notes_url: str | None = None,
    moved: str | None = None,
) -> None:
    """Handle messages, leaving a note of each, until told to stop.

    With ``groups``, a directory, it writes the steps of each group there, and fails at some of them once.
    Its machine's clock may be off, and its files may not be allowed to grow; it may never be done with a message.
    It may give others whose connections are cut longer to come back, and its own transactions may be idle for less
    time. One of so many messages fails. It may write into a file when it handled the last message, and note it by
    another way. A file may move its clock.
    """
    if moved is not None:
        follow_clock(Path(moved))
    limits.IDLE_SECONDS = idle_seconds
    notes = "default"
    if notes_url is not None:
        notes = "notes"
        reach(notes, notes_url)
    PostgreSQLSessions.reconnect_seconds = reconnect_seconds
    set_clock(timedelta(hours=clock_hours))
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    def handle(message: ReceivedMessage) -> None:
        if hold:
            threading.Event().wait()
        if groups is not None:
            take_step(Path(groups), message)
        if failing and message.body["number"] % failing == 0:
            raise ValueError
        if noting:
            note(DONE, [message.id], notes)
        if clock is not None:
            Path(clock).write_text(str(time.monotonic()), encoding="ascii")

    handler = Handler(
        queue=QUEUE,
        function=handle,
        credit=credit,
        time_limit_seconds=None,
        transactional=transactional,
        selector=selector,
    )
    worker = Worker([handler], threads=threads)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def follow_clock(file: Path) -> None:
    """Move the clock of this process as the file says, in seconds, and look for ticks each second."""
    duty.RUNS_KEPT = sys.maxsize - 1  # all ticks are counted

    def follow() -> None:
        for turn in count():
            offset = timedelta(seconds=float(file.read_text(encoding="ascii")))
            if offset != moving.offset or turn % 100 == 0:  # a look may have begun before the move
                moving.offset = offset
                duty._next_looks.clear()
            threading.Event().wait(0.01)

    moving.offset = timedelta(seconds=float(file.read_text(encoding="ascii")))
    threading.Thread(target=follow, daemon=True).start()


#: Each group fails at its steps with this remainder of ten, once.
FAILING = 3


def take_step(directory: Path, message: ReceivedMessage) -> None:
    """Write down a step of a group, and whether another step of the group is taken at the same time."""
    with (directory / str(message.headers["group"])).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, too
        except BlockingIOError:
            (directory / "clash").touch()
        file.seek(0)
        is_new = f"{message.body}\n" not in file.readlines()
        file.write(f"{message.body}\n")
        file.flush()
        if is_new and message.body % 10 == FAILING:
            raise ValueError


def set_clock(ahead: timedelta) -> None:
    """Have this process believe that it is earlier or later."""
    if not ahead:
        return  # no field knows times of another class

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + ahead

    right = time.time
    time.time = lambda: right() + ahead.total_seconds()
    for name, module in list(sys.modules.items()):
        if name.startswith("django_mq") and vars(module).get("datetime") is datetime:
            vars(module)["datetime"] = Wrong


def send(*, batch: int = 1, pause: float = 0.01) -> None:
    """Publish for ever, each batch in one transaction with the notes of it; an outage costs a batch."""
    while True:
        try:
            with transaction.atomic():
                note(SENT, publish_many([(QUEUE, number) for number in range(batch)]))
        except (DatabaseError, InterfaceError, StoreError):
            connections["default"].close()
        # The process that asks SQLite at the right moment gets the write lock: a busy one starves the others.
        threading.Event().wait(pause)


def send_bodies(*, padding: int, pause: float = 0.01) -> None:
    """Publish numbered messages for ever, some of them with so many bytes."""
    for number in count():
        body = {"number": number, "padding": "x" * (padding if number % 10 == 0 else 0)}
        with transaction.atomic():
            note(SENT, [publish(QUEUE, body)])
        threading.Event().wait(pause)


def send_and_stop(*, where: str, flag: str) -> None:
    """Publish one message and stop for ever ``before commit`` or ``before hint``, having raised the flag."""

    def stop() -> None:
        _raise(flag)
        threading.Event().wait()

    with transaction.atomic():
        if where == "before hint":
            # Called in the order in which they were registered, and the hint's comes with the publish.
            transaction.on_commit(stop)
        note(SENT, [publish(QUEUE, where)])
        if where == "before commit":
            stop()


def _raise(flag: str) -> None:
    Path(flag).touch()


def tidy(*, clock: float = 0.0) -> None:
    """Do maintenance for ever."""
    store = private_store("default")
    store.database.clock_offset = timedelta(seconds=clock)
    maintain(store, threading.Event())


def command(*, threads: int = 2) -> None:
    """Run ``mq_worker`` with a handler that leaves a note of each message."""
    consumer(QUEUE)(lambda message: note(DONE, [message.id]))
    call_command("mq_worker", "--queues", QUEUE, "--threads", str(threads))


def manage(*, arguments: list[str]) -> None:
    """Run a command of ``manage.py``."""
    call_command(*arguments)


def celery(*, options: list[str]) -> None:
    """Run a Celery worker with these options."""
    celery_worker.run(*options)


def die(*, errand: str, number: int, after: bool, grave: str, count: str) -> None:
    """Run an errand, and die before or after this statement; if it does not come, note how many there were."""
    fatal = Fatal(number, after=after, grave=Path(grave))
    fatal.lay()
    ERRANDS[errand]("default").run()
    Path(count).write_text(str(fatal.count), encoding="ascii")


ROLES: dict[str, Callable[..., None]] = {
    "consume": consume,
    "send": send,
    "send_bodies": send_bodies,
    "send_and_stop": send_and_stop,
    "tidy": tidy,
    "command": command,
    "manage": manage,
    "celery": celery,
    "race": race,
    "limited": consume_limited,
    "die": die,
    **PIECE_ROLES,
}
