"""Chords end once, when their last member has ended, in the transaction that stores its result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from celery import Celery, _state, chain, chord, group, states
from celery.app.task import Context
from celery.exceptions import ChordError
from celery.result import AsyncResult
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_mq.api import purge
from django_mq.delivery.operator.actions import cancel, rows_of
from django_mq.engine.decisions.chords import (
    ChordCount,
    ChordEnd,
    Loss,
    Trace,
    end_of,
    is_abandoned,
    is_lost,
    loss_of,
    seconds_to_next_look,
    trace_of,
)
from django_mq.engine.decisions.ends import End, Ended
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DrainNeverEnds
from django_mq.integrations.celery.publisher import MANY
from django_mq.integrations.celery.results import end_chords
from django_mq.integrations.celery.url import register
from django_mq.models import Message
from django_mq.results.abandoned import count_abandoned
from django_mq.results.connections import forget, keep
from django_mq.results.models import Chord, ChordMember, ChordRoster
from django_mq.stores.clock import clock
from django_mq.stores.records import BegunRun, Heartbeat, Running
from django_mq.stores.registry import shared_store
from tests.stores.builders import claim, lose_worker, open_session, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.testing import QueueTester

SEEN: list[Any] = []


def add(self: Any, *numbers: int) -> int:
    return sum(numbers)


def total(self: Any, numbers: Any) -> Any:
    SEEN.append(numbers)
    return numbers


def fail(self: Any, *_: Any) -> None:
    raise ValueError("on purpose")


def replace(self: Any, number: int) -> None:
    raise self.replace(chain(self.app.tasks["add"].s(number, 1), self.app.tasks["add"].s(10)))


def grow(self: Any, number: int) -> int:
    self.add_to_chord(self.app.tasks["add"].s(number, 100))
    return number


def note(self: Any, *given: Any) -> None:
    SEEN.append("failed")


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Celery]]:
    """Make the current app, with its results in a database."""
    register()
    monkeypatch.setattr(_state._tls, "current_app", None)
    monkeypatch.setattr(_state, "default_app", None)
    made: list[Celery] = []

    def make(alias: str, broker: str = "") -> Celery:
        url = f"django-mq:///{alias}"
        app = Celery("unit", broker=broker or url, backend=url)
        app.set_current()
        for function in (add, total, fail, replace, grow, note):
            app.task(name=function.__name__, shared=False, bind=True)(function)
        app.task(name="quiet", shared=False, bind=True, ignore_result=True)(add)
        made.append(app)
        return app

    SEEN.clear()
    yield make
    for app in made:
        app.close()


@pytest.mark.parametrize(
    ("chord", "now", "end"),
    [
        (ChordCount(None, 0, 5, 0), 0, ChordEnd.WAIT),
        (ChordCount(3, 0, 2, 1), 0, ChordEnd.WAIT),
        (ChordCount(3, 0, 3, 0), 0, ChordEnd.PUBLISH),
        (ChordCount(3, 1, 3, 0), 0, ChordEnd.WAIT),
        (ChordCount(3, 1, 4, 2), 0, ChordEnd.FAIL),
        (ChordCount(3, 0, 4, 0), 0, ChordEnd.PUBLISH),
        (ChordCount(3, 0, 3, 0, ended=True), 0, ChordEnd.OVER),
        (ChordCount(3, 0, 3, 0, True, 60), 59, ChordEnd.OVER),  # type: ignore[arg-type]
        (ChordCount(3, 0, 3, 1, True, 60), 60, ChordEnd.FAIL),  # type: ignore[arg-type]
    ],
)
def test_the_last_member_decides_how_a_chord_ends(chord: ChordCount, now: Any, end: ChordEnd) -> None:
    assert end_of(chord, now) is end


def test_a_program_without_hints_looks_less_and_less_often() -> None:
    assert [seconds_to_next_look(waited, 0.5) for waited in (0, 1, 100)] == [0.005, 0.1, 0.5]
    assert seconds_to_next_look(0, 0.001) == 0.001


#: Canvases, and what their bodies get.
CANVASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "members": (lambda t: chord([t.add.s(n) for n in range(12)], t.total.s()), list(range(12))),
    "one member": (lambda t: chord([t.add.s(1)], t.total.s()), [1]),
    "no member": (lambda t: chord([], t.total.s()), []),
    "group and task": (lambda t: group(t.add.s(1), t.add.s(2)) | t.total.s(), [1, 2]),
    "chains": (lambda t: chord([t.add.s(1) | t.add.s(2), t.add.s(4)], t.total.s()), [3, 4]),
    "a chain last": (lambda t: chord([t.add.s(4), t.add.s(1) | t.add.s(2)], t.total.s()), [4, 3]),
    "a group last": (lambda t: chord([t.add.s(3), group(t.add.s(1), t.add.s(2))], t.total.s()), [3, 2, 1]),
    "a chord last": (
        lambda t: chord([t.add.s(3), chord([t.add.s(1), t.add.s(2)], t.total.s())], t.total.s()),
        [3, [1, 2]],
    ),
    "a group at the end of a last chain": (
        lambda t: chord([t.add.s(3), t.add.s(1) | group(t.add.s(1), t.add.s(2))], t.total.s()),
        [3, [2, 3]],
    ),
    "more members than one statement writes": (
        lambda t: chord([t.add.s(n) for n in range(MANY + 10)], t.total.s()),
        list(range(MANY + 10)),
    ),
    # Celery takes the members of a group out of it, the last one first.
    "a group within": (lambda t: chord([group(t.add.s(1), t.add.s(2)), t.add.s(3)], t.total.s()), [2, 1, 3]),
    "a group at the end of a chain": (
        lambda t: chord([t.add.s(1) | group(t.add.s(1), t.add.s(2)), t.add.s(3)], t.total.s()),
        [[2, 3], 3],
    ),
    "chords within": (
        lambda t: chord([chord([t.add.s(1), t.add.s(2)], t.total.s()), t.add.s(3)], t.total.s()),
        [[1, 2], 3],
    ),
    "a chain of chords": (
        lambda t: group(t.add.s(1), t.add.s(2)) | t.total.s() | group(t.total.s(), t.total.s()) | t.total.s(),
        [[1, 2], [1, 2]],
    ),
    "ignored results": (lambda t: chord([t.quiet.s(1), t.quiet.s(2)], t.total.s()), [1, 2]),
    "a replaced member": (lambda t: chord([t.replace.s(1), t.add.s(2)], t.total.s()), [12, 2]),
    "the same task twice": (lambda t: chord([t.add.si(1, 1)] * 2, t.total.s()), [2, 2]),
}


@pytest.mark.parametrize(
    ("end", "loss"),
    [(End.EXPIRED, Loss.EXPIRED), (End.PURGED, Loss.REMOVED), (End.ACCEPTED, None), (End.DEAD, None)],
)
def test_a_member_is_lost_with_a_message_that_no_worker_runs(end: End, loss: Loss | None) -> None:
    ended = Ended(1, UUID(int=1), "celery", end, "add", "{}", None, b"", "", "")

    assert loss_of(ended) is loss


class Tasks:
    """The tasks of an app by their names."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def __getattr__(self, name: str) -> Any:
        return self._app.tasks[name]


@pytest.mark.parametrize("name", CANVASES)
def test_the_body_gets_the_results_of_all_members(
    database: str, make: Callable[..., Celery], mq: QueueTester, name: str
) -> None:
    app = make(database)
    canvas, expected = CANVASES[name]

    result = canvas(Tasks(app)).delay()
    mq.drain()

    assert result.get(timeout=0) == expected
    assert SEEN[-1] == expected
    assert not ChordMember.objects.using(database).exists()


def test_a_member_can_add_another_one(database: str, make: Callable[..., Celery], mq: QueueTester) -> None:
    t = Tasks(make(database))
    result = chord([t.grow.s(1), t.add.s(2)], t.total.s()).delay()
    mq.drain()

    assert sorted(result.get(timeout=0)) == [1, 2, 101]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: t.fail.s(), "on purpose"),
        (lambda t: t.fail.s() | t.add.s(1), "on purpose"),
        (lambda t: t.add.s(1).set(countdown=60, expires=30), "expired"),
        (lambda t: chord([t.fail.s(), t.add.s(1)], t.total.s()), "on purpose"),
        (lambda t: t.add.s("x"), "unsupported operand"),
    ],
    ids=["fails", "chain fails", "expires", "chord fails", "wrong argument"],
)
def test_a_member_without_success_fails_the_body_when_all_have_ended(
    database: str, make: Callable[..., Celery], mq: QueueTester, spoil: Any, words: str
) -> None:
    t = Tasks(make(database))
    body = t.total.s()
    body.link_error(t.note.si())
    result = chord([t.add.s(1), spoil(t), t.add.s(2, 3)], body).delay()
    mq.drain(raise_errors=False, ahead=timedelta(hours=1))

    with pytest.raises(ChordError, match=words):
        AsyncResult(result.id).get(timeout=0)  # without its parents, whose errors come first
    assert SEEN == ["failed"]
    assert not ChordMember.objects.using(database).exists()


def ended(app: Celery, task_id: str, body: Any, value: Any = 1, position: int | None = None, **more: Any) -> None:
    """A member has succeeded."""
    made = Context(id=task_id, task="add", group="g", group_index=position, chord=body, errbacks=None, **more)
    app.backend.mark_as_done(task_id, value, made)


@pytest.fixture
def worker() -> Iterator[None]:
    """This process keeps a connection for results, as those of a worker do."""
    keep()
    yield
    forget()


def bodies(alias: str) -> int:
    return Message.objects.using(alias).filter(type="total").count()


def test_a_member_that_runs_again_counts_once(database: str, make: Callable[..., Celery]) -> None:
    app = make(database)
    body = app.tasks["total"].s()
    app.backend.set_chord_size("g", 2)
    for task_id in ("a", "a", "a"):
        ended(app, task_id, body)
    assert bodies(database) == 0

    for task_id in ("b", "b", "a"):  # the last two after the end
        ended(app, task_id, body)
    assert bodies(database) == 1

    app.backend.set_chord_size("g", 1)  # the same chord, applied again
    ended(app, "a", body)
    assert bodies(database) == 2


def test_members_may_end_before_their_number_is_known(database: str, make: Callable[..., Celery]) -> None:
    app = make(database)
    body = app.tasks["total"].s()
    ended(app, "a", body)
    app.backend.set_chord_size("g", 2)
    ended(app, "b", body)

    assert bodies(database) == 1


def test_result_count_and_body_commit_or_go_together(database: str, make: Callable[..., Celery]) -> None:
    app = make(database)
    body = app.tasks["total"].s()
    app.backend.set_chord_size("g", 1)
    with transaction.atomic(using=database):
        ended(app, "a", body)
        assert (bodies(database), app.backend.get_task_meta("a", cache=False)["status"]) == (1, states.SUCCESS)
        transaction.set_rollback(True, using=database)
    assert (bodies(database), app.backend.get_task_meta("a", cache=False)["status"]) == (0, states.PENDING)

    ended(app, "a", body)
    assert bodies(database) == 1


@pytest.mark.usefixtures("worker")
def test_only_the_last_member_needs_djangos_connection(
    committed_database: str, make: Callable[..., Celery]
) -> None:
    app = make(committed_database)
    body = app.tasks["total"].s()
    app.backend.set_chord_size("g", 4)
    needed = []
    for task_id in ("a", "b", "c", "d"):
        with CaptureQueriesContext(connections[committed_database]) as queries:
            ended(app, task_id, body, called_directly=False)
        needed.append(len(queries) > 0)
        ended(app, "a", body, called_directly=False)  # again: it counts once

    assert needed == [False, False, False, True]
    assert bodies(committed_database) == 1
    assert app.backend.get_task_meta("b", cache=False)["result"] == 1


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("in_worker", [False, True])
def test_members_that_end_at_the_same_time_end_the_chord_once(
    committed_database: str, make: Callable[..., Celery], in_worker: bool
) -> None:
    app = make(committed_database)
    body = app.tasks["total"].s()
    members = 60
    app.backend.set_chord_size("g", members)

    def run(number: int) -> None:
        try:
            for _ in range(2):
                ended(app, f"t{number}", body, number, number, called_directly=not in_worker)
        finally:
            connections[committed_database].close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(members)))

    [message] = Message.objects.using(committed_database).filter(type="total")
    assert str(list(range(members))) in bytes(message.body).decode()
    assert Chord.objects.using(committed_database).get().counted == members


LOST: dict[str, Callable[[str, list[int]], Any]] = {
    "cancelled": lambda alias, rows: cancel(
        rows_of(Message.objects.using(alias).filter(pk__in=rows)), using=alias
    ),
    "purged": lambda alias, _: purge("celery", using=alias),
}


@pytest.mark.parametrize("way", LOST)
def test_a_chord_ends_when_members_are_lost(
    database: str, make: Callable[..., Celery], mq: QueueTester, way: str
) -> None:
    t = Tasks(make(database))
    body = t.total.s()
    body.link_error(t.note.si())
    members = [t.add.s(1), t.add.s(2), t.add.s(3) | t.add.s(4)]
    result = chord(members, body).delay()
    store = shared_store(database)
    LOST[way](database, [*Message.objects.using(database).values_list("pk", flat=True)])
    assert not Message.objects.using(database).exists()

    assert end_chords(store, 10) == 1
    assert end_chords(store, 10) == 0
    mq.drain()
    with pytest.raises(ChordError, match="removed"):
        AsyncResult(result.id).get(timeout=0)
    assert SEEN == ["failed"]


@pytest.mark.parametrize(
    ("known", "trace"),
    [
        ((False, False, None, False), Trace.NONE),
        ((False, False, True, False), Trace.GONE),
        ((False, False, True, True), Trace.KEPT),
        ((False, False, False, False), Trace.KEPT),
        ((True, False, True, False), Trace.KEPT),
        ((False, True, True, False), Trace.KEPT),
    ],
)
def test_a_task_is_gone_if_only_a_session_that_has_ended_knew_it(known: Any, trace: Trace) -> None:
    names = ("waits", "has_result", "was_accepted", "session_lives")
    assert trace_of(**dict(zip(names, known, strict=True))) is trace


def test_the_last_known_task_before_a_member_says_if_it_is_abandoned() -> None:
    gone, kept, none = Trace.GONE, Trace.KEPT, Trace.NONE
    found = [[[gone]], [[gone], [none]], [[none]], [[gone], [kept]], [[kept], [gone]], [[gone], [gone, gone]]]

    assert [is_abandoned(stages) for stages in found] == [True, True, False, False, True, False]
    now = clock.now()
    assert [is_lost(now - timedelta(seconds=each), now, 15) for each in (29, 30)] == [False, True]


#: Members that a worker begins, by the number of those that it has begun when it dies.
BEGUN: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a task": (lambda t: [t.add.s(1), t.add.s(2)], 1),
    "the last of a group": (lambda t: group(t.add.s(n) for n in range(3)), 3),
    "the first of a chain": (lambda t: [t.add.s(1) | t.add.s(2), t.add.s(3)], 1),
    "before a group": (lambda t: [t.add.s(1) | group(t.add.s(2), t.add.s(3)), t.add.s(4)], 1),
    "of a chord within": (lambda t: [t.add.s(4), chord([t.add.s(1), t.add.s(2)], t.total.s())], 1),
}


def begin_and_die(alias: str, number: int, *, is_listed: bool = False) -> list[str]:
    """A worker acknowledges tasks when it begins them, and is gone; return their ids."""
    store = shared_store(alias)
    session = open_session(store)
    held = sorted(claim(store, session, "celery", credit=100), key=lambda each: each.id)
    begun, waiting = held[:number], held[number:]
    for each in begun:
        settle(store, session, each, Verdict.ACCEPT, told_to=each.told_to)
    for each in waiting:
        settle(store, session, each, Verdict.RELEASE)
    lose_worker(store, session)
    if is_listed:  # its process has another session
        run = [
            Running(each.id, each.claim, "add", 1.0, BegunRun(str(each.message_id), "celery")) for each in begun
        ]
        session = open_session(store, "again")
        store.sessions.renew(session, Heartbeat(deadline_seconds=60, running=tuple(run)))
    return [str(each.correlation_id) for each in begun]


def look(alias: str, monkeypatch: pytest.MonkeyPatch, minutes: int) -> int:
    """Look at the chords, so many minutes from now; return how many members are found lost."""
    monkeypatch.setattr(clock, "offset", timedelta(minutes=minutes))
    return count_abandoned(shared_store(alias), 200)["lost"]


@pytest.mark.parametrize("name", BEGUN)
def test_a_chord_ends_when_the_worker_of_a_member_is_gone(
    database: str, make: Callable[..., Celery], mq: QueueTester, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    app = make(database)
    members, number = BEGUN[name]
    body = app.tasks["total"].s()
    body.link_error(app.tasks["note"].si())
    result = chord(members(Tasks(app)), body).delay()
    gone = begin_and_die(database, number)
    mq.drain(raise_errors=False)

    assert [look(database, monkeypatch, minutes) for minutes in (0, 1)] == [0, 0]  # a worker may come back
    assert look(database, monkeypatch, 2) >= 1
    assert end_chords(shared_store(database), 10) >= 1
    mq.drain(raise_errors=False)
    assert SEEN[-1] == "failed"
    with pytest.raises(ChordError, match="WorkerLostError"):
        AsyncResult(result.id, app=app).get(timeout=0)
    lost = AsyncResult(gone[0], app=app)
    assert (lost.state, type(lost.result).__name__) == (states.FAILURE, "WorkerLostError")
    assert [look(database, monkeypatch, minutes) for minutes in (3, 4)] == [0, 0]
    assert not ChordRoster.objects.using(database).exists()


def test_a_lost_member_that_lives_after_all_counts_once(
    database: str, make: Callable[..., Celery], mq: QueueTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(database)
    chord([app.tasks["add"].s(1), app.tasks["add"].s(2)], app.tasks["total"].s()).delay()
    group_id = Chord.objects.using(database).get().group_id
    [gone] = begin_and_die(database, 1)
    assert [look(database, monkeypatch, minutes) for minutes in range(3)] == [0, 0, 1]
    for _ in range(2):
        request = Context(id=gone, task="add", group=group_id, group_index=0, chord=app.tasks["total"].s())
        app.backend.mark_as_done(gone, 1, request)

    assert (Chord.objects.using(database).get().counted, bodies(database)) == (1, 0)
    assert app.backend.get_task_meta(gone, cache=False)["status"] == states.SUCCESS
    mq.drain(raise_errors=False)
    assert Chord.objects.using(database).get().counted == 2


def wait_for_its_retry(app: Celery, gone: str) -> None:
    app.tasks["add"].apply_async((1,), task_id=gone, countdown=3600)


def note_its_end(app: Celery, gone: str) -> None:
    app.backend.store_result(gone, ValueError("no"), states.FAILURE)


KEPT: dict[str, Callable[[Celery, str], None]] = {
    "its process has another session": lambda _app, _gone: None,
    "its retry waits": wait_for_its_retry,
    "its result is stored": note_its_end,
}


@pytest.mark.parametrize("name", KEPT)
def test_a_member_that_something_still_knows_is_not_lost(
    database: str, make: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    app = make(database)
    chord([app.tasks["add"].s(1), app.tasks["add"].s(2)], app.tasks["total"].s()).delay()
    [gone] = begin_and_die(database, 1, is_listed=name == "its process has another session")
    KEPT[name](app, gone)

    assert [look(database, monkeypatch, minutes) for minutes in range(4)] == [0] * 4


def test_a_replaced_member_is_not_lost_while_its_replacement_runs(
    database: str, make: Callable[..., Celery], mq: QueueTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(database)
    chord([app.tasks["replace"].s(1), app.tasks["add"].s(2)], app.tasks["total"].s()).delay()
    # The worker in which the member has replaced itself is gone, too.
    with suppress(DrainNeverEnds):
        mq.drain(limit=1)
    assert [look(database, monkeypatch, minutes) for minutes in range(4)] == [0] * 4
    begin_and_die(database, 100)

    assert [look(database, monkeypatch, minutes) for minutes in range(4, 8)] == [0, 2, 0, 0]


def test_a_chord_keeps_its_members_by_one_statement(database: str, make: Callable[..., Celery]) -> None:
    app = make(database)
    with CaptureQueriesContext(connections[database]) as queries:
        chord([app.tasks["add"].s(n) for n in range(300)], app.tasks["total"].s()).delay()

    written = [each["sql"] for each in queries if "django_mq_chordroster" in each["sql"]]
    assert len(written) == 1


def test_a_chord_whose_process_died_at_the_end_is_ended_by_a_worker(
    database: str, make: Callable[..., Celery], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(database, broker="memory://")  # which does not commit with the result
    body = app.tasks["total"].s()
    body.freeze("body")
    store = shared_store(database)
    app.backend.set_chord_size("g", 2)
    ended(app, "a", body)
    with monkeypatch.context() as patch:
        patch.setattr(app.backend, "finish_chord", lambda *_: None)  # as if it had been killed here
        app.backend.mark_as_failure(
            "b", ValueError("no"), request=Context(id="b", task="add", group="g", chord=body, errbacks=None)
        )
    assert end_chords(store, 10) == 0
    assert AsyncResult("body", app=app).state == states.PENDING

    monkeypatch.setattr(clock, "offset", timedelta(minutes=2))
    assert end_chords(store, 10) == 1
    assert end_chords(store, 10) == 0
    with pytest.raises(ChordError, match="Dependency b raised ValueError"):
        AsyncResult("body", app=app).get(timeout=0)
