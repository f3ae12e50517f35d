"""Hints through PostgreSQL: what becomes of them when connections, servers and processes end."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.api import publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import History
from django_mq.notifications.base import News, Wake
from django_mq.notifications.postgresql import PostgreSQLListener, PostgreSQLNotifier
from django_mq.stores.registry import shared_store
from tests.conftest import hold_queues
from tests.delivery.builders import a_handler, running
from tests.notifications.conformance.conftest import Ears
from tests.support.forking import exit_code_of_child
from tests.support.site import a_site_on
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import DjangoDbBlocker, Settings

    from tests.services.postgresql import PostgreSQL

ALIAS = "postgresql"
ONE = {"orders": News(messages=1)}
pytestmark = pytest.mark.django_db(databases=[ALIAS], transaction=True)


@pytest.fixture(autouse=True)
def no_session_is_left(transactional_db: None) -> None:
    """Sessions of killed processes belong to the test before."""
    sql("DELETE FROM django_mq_idle")


@pytest.fixture
def notifier() -> PostgreSQLNotifier:
    return PostgreSQLNotifier(ALIAS)


@pytest.fixture
def ears(notifier: PostgreSQLNotifier) -> Iterator[Ears]:
    made = Ears(notifier)
    yield made
    made.close()


def an_idle_session(ears: Ears) -> tuple[Any, Wake]:
    listener, wake = ears.listen(["q:orders"])
    listener.register_idle(["orders"])
    return listener, wake


def sql(query: str, alias: str = ALIAS) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def notified(wake: Wake, topic: str = "n:orders") -> None:
    wait_until(lambda: topic in wake.take_topics(), f"the notification {topic}")


# The listening connection


def test_a_listening_connection_that_is_cut_comes_back_and_wakes(notifier: PostgreSQLNotifier, ears: Ears) -> None:
    listener, wake = an_idle_session(ears)
    backend = notifier.line.store.database.connection.connection.info.backend_pid

    sql(f"SELECT pg_terminate_backend({backend})")

    notified(wake, "*")
    wait_until(lambda: listener.connected)
    assert listener.register_idle(["orders"]).missed
    notifier.announce(ONE)
    notified(wake)


def test_sessions_of_a_process_share_one_connection_which_ends_with_the_last(
    notifier: PostgreSQLNotifier, ears: Ears
) -> None:
    sessions = [an_idle_session(ears) for _ in range(3)]
    listening = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 28018"
    assert len(sql(listening)) == 1

    for listener, _ in sessions:
        listener.close()

    wait_until(lambda: sql(listening) == [])
    assert sql("SELECT session FROM django_mq_idle") == []


def test_a_connection_that_is_slow_to_close_does_not_take_the_next_one_with_it(
    notifier: PostgreSQLNotifier, ears: Ears
) -> None:
    listener, _ = an_idle_session(ears)
    before: Any = notifier.line.store.database
    driver = before.connection.connection
    with before.alone():  # the thread hears that it is not wanted any more, and waits
        listener._registered_until = 0.0
        closing = threading.Thread(target=listener.close)
        closing.start()
        wait_until(lambda: notifier.line._bell is None)
        waiting = notifier.listen(Wake())
        waiting.subscribe(["q:orders"])
        # Nothing shows that the next thread waits: this gives one that does not the time to connect.
        threading.Event().wait(0.5)

    closing.join()
    wait_until(lambda: driver.closed)
    wait_until(lambda: waiting.connected)
    waiting.close()


def test_a_session_that_is_dropped_does_not_keep_the_connection_open(notifier: PostgreSQLNotifier) -> None:
    dropped = notifier.listen(Wake())
    dropped.subscribe(["q:orders"])
    wait_until(lambda: notifier.line.connected)
    driver = notifier.line.store.database.connection.connection

    del dropped
    gc.collect()

    wait_until(lambda: driver.closed)


class CollectingThread(threading.Thread):
    """Collects garbage before it says that it has begun, as any thread may."""

    def _bootstrap_inner(self) -> None:
        gc.collect()
        super()._bootstrap_inner()  # type: ignore[misc]


def test_a_listener_that_the_new_thread_collects_does_not_keep_it_from_beginning(
    notifier: PostgreSQLNotifier, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "Thread", CollectingThread)
    gc.disable()
    try:
        dropped: Any = notifier.listen(Wake())
        dropped.subscribe([])
        dropped.itself = dropped  # only the garbage collector frees it
        del dropped

        listener, _ = ears.listen(["q:orders"])
    finally:
        gc.enable()

    assert listener.connected


KILLED = """
import os, signal, sys, time
import django
django.setup()
from django_mq.notifications.base import Wake
from django_mq.notifications.postgresql import PostgreSQLNotifier
wake = Wake()
listener = PostgreSQLNotifier("default").listen(wake)
listener.subscribe(["q:orders"])
while not listener.connected:
    time.sleep(0.01)
listener.register_idle(["orders"])
while sys.argv[1] == "when notified" and "n:orders" not in wake.take_topics():
    wake.wait(None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_session_is_passed_over(
    notifier: PostgreSQLNotifier, ears: Ears, process_environment: Callable[..., dict[str, str]]
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, "idle"], check=False, env=process_environment(ALIAS))
    assert ended.returncode == -signal.SIGKILL
    assert len(sql("SELECT session FROM django_mq_idle")) == 1
    wait_until(lambda: not sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 28018"))
    _, wake = an_idle_session(ears)

    notifier.announce(ONE)

    notified(wake)
    assert len(sql("SELECT session FROM django_mq_idle")) == 1


def test_the_session_that_has_been_idle_longest_is_notified_first(
    notifier: PostgreSQLNotifier, ears: Ears
) -> None:
    sessions = [an_idle_session(ears) for _ in range(3)]
    longest, wake = sessions[-1]
    sql(f"UPDATE django_mq_idle SET since = since - interval '1 minute' WHERE session = '{longest.name}'")

    notifier.announce(ONE)

    notified(wake)


def test_a_publisher_passes_over_a_session_that_another_is_about_to_notify(
    notifier: PostgreSQLNotifier, ears: Ears
) -> None:
    (_, first), (_, second) = an_idle_session(ears), an_idle_session(ears)
    other = connections.create_connection(ALIAS)
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT session FROM django_mq_idle ORDER BY since LIMIT 1 FOR UPDATE")
        notifier.announce(ONE)
        notified(second)
    finally:
        other.close()

    assert "n:orders" not in first.take_topics()


def test_a_forked_child_leaves_the_connection_to_its_parent(notifier: PostgreSQLNotifier, ears: Ears) -> None:
    _, wake = an_idle_session(ears)

    def announce() -> int:
        notifier.announce(ONE)
        return int(notifier.line.connected)

    assert exit_code_of_child(announce) == 0

    notified(wake)


# Publishers


def test_where_no_session_is_idle_a_publisher_writes_nothing(notifier: PostgreSQLNotifier) -> None:
    store = shared_store(ALIAS)
    next_transaction = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    before = sql(next_transaction)[0][0]

    for _ in range(100):
        notifier.announce(ONE, over=store)

    assert sql(next_transaction)[0][0] - before < 50  # others may write meanwhile


def test_threads_that_send_their_first_hints_at_once_leave_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    begin = threading.Barrier(8)

    def announce(notifier: PostgreSQLNotifier) -> None:
        begin.wait()
        notifier.announce(ONE)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the threads meet everywhere
    try:
        with ThreadPoolExecutor(8) as threads:
            for notifier in [PostgreSQLNotifier(ALIAS) for _ in range(10)]:
                list(threads.map(announce, [notifier] * 8))
    finally:
        sys.setswitchinterval(usual)

    gc.collect()  # a connection that is dropped open is an error
    assert "hints are dropped" not in caplog.text


def test_a_hint_that_fails_harms_neither_the_publisher_nor_its_connection(
    ears: Ears, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    hold_queues(settings, ALIAS)
    declare(shared_store(ALIAS), "unknown")  # this process knows of no session, idle or not, and keeps no hint
    sql("ALTER TABLE django_mq_idle RENAME TO django_mq_idle_away")
    try:
        for number in range(20):
            publish("unknown", number)
            with transaction.atomic(using=ALIAS):
                publish("unknown", number)
    finally:
        sql("ALTER TABLE django_mq_idle_away RENAME TO django_mq_idle")

    assert not connections[ALIAS].errors_occurred
    assert shared_store(ALIAS).queues.counts()["unknown"].ready == 40
    assert 1 <= caplog.text.count("hints are dropped") < 20


def test_nothing_is_notified_in_a_transaction(notifier: PostgreSQLNotifier, ears: Ears) -> None:
    an_idle_session(ears)

    with transaction.atomic(using=ALIAS):
        notifier.announce(ONE, over=shared_store(ALIAS))

    assert len(sql("SELECT session FROM django_mq_idle")) == 1


def test_a_hint_does_not_appear_among_the_queries_of_the_project(
    notifier: PostgreSQLNotifier, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0, connection=connections[ALIAS]):
        notifier.announce(ONE, over=shared_store(ALIAS))


def test_names_are_taken_literally(notifier: PostgreSQLNotifier, ears: Ears) -> None:
    name = "\"'; DROP TABLE x; --" + "ü" * 150
    listener, wake = ears.listen([f"q:{name}", f"v:{name}"])
    listener.register_idle([name])

    notifier.announce({name: News(messages=1)})
    notified(wake, f"n:{name}")
    notifier.send([f"v:{name}"])
    notified(wake, f"v:{name}")


# Due times


def test_of_those_who_know_of_a_due_time_one_waits_for_it(ears: Ears) -> None:
    first, second, third = (an_idle_session(ears)[0] for _ in range(3))

    def due(listener: Any, seconds: float | None, *, following: bool = False) -> tuple[bool, bool]:
        registered = listener.register_idle(["orders"], due_seconds=seconds, following=following)
        return registered.due_seconds is not None, registered.ask_seconds is not None

    assert due(first, 60.0) == (True, False)
    assert due(second, 60.0) == (False, True)
    assert due(third, 30.0) == (True, False)
    third.withdraw()
    first.withdraw()
    assert due(second, None, following=True) == (True, False)


def test_a_later_due_time_wakes_no_session(notifier: PostgreSQLNotifier, ears: Ears) -> None:
    listener, wake = an_idle_session(ears)
    listener.register_idle(["orders"], due_seconds=30.0)

    notifier.announce({"orders": News(due_seconds=60.0)})
    assert len(sql("SELECT session FROM django_mq_idle")) == 1

    notifier.announce({"orders": News(due_seconds=10.0)})
    notified(wake)


# Workers: what is lost costs the time to the next safety poll of a worker, never a message.


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Settings of a site on which nothing but a hint and the safety poll makes a worker look."""
    monkeypatch.setattr(PostgreSQLListener, "renewal_seconds", 3600.0)
    return {"POLL_SECONDS": 3600, "SAFETY_POLL_SECONDS": 2.0, "SESSION_SECONDS": 2.0}


@pytest.fixture
def hinted(settings: Settings, seldom: dict[str, float]) -> str:
    """A site whose workers look unasked with their heartbeat only."""
    hold_queues(settings, ALIAS)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **seldom}
    declare(shared_store(ALIAS), "orders")
    return ALIAS


def finished(alias: str) -> int:
    return History.objects.using(alias).count()


def registered(alias: str = ALIAS) -> int:
    return len(sql("SELECT session FROM django_mq_idle", alias))


def test_workers_of_several_sessions_handle_each_message_once(hinted: str) -> None:
    seen: list[Any] = []
    handler = a_handler(lambda message: seen.append(message.body))
    with running(handler, using=hinted), running(handler, using=hinted):
        wait_until(lambda: registered() == 2)
        for number in range(30):
            publish("orders", number)
        publish_many([("orders", number) for number in range(30, 60)])
        wait_until(lambda: finished(hinted) == 60)

    assert sorted(seen) == list(range(60))


KILLED_PUBLISHER = """
import os, signal
import django
django.setup()
from django.db import transaction
from django_mq.api import publish
with transaction.atomic():
    transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL))
    publish("orders", 1)
"""


def test_a_publisher_that_is_killed_between_commit_and_hint_costs_the_time_to_a_poll(
    hinted: str, process_environment: Callable[..., dict[str, str]]
) -> None:
    with running(a_handler(), using=hinted):
        wait_until(lambda: registered() == 1)

        ended = subprocess.run(
            [sys.executable, "-c", KILLED_PUBLISHER], check=False, env=process_environment(ALIAS)
        )

        assert ended.returncode == -signal.SIGKILL
        wait_until(lambda: finished(hinted) == 1)


def test_a_worker_that_is_killed_when_it_is_notified_costs_the_time_to_a_poll(
    hinted: str, process_environment: Callable[..., dict[str, str]]
) -> None:
    command = [sys.executable, "-c", KILLED, "when notified"]
    with subprocess.Popen(command, env=process_environment(ALIAS)) as first:
        wait_until(lambda: registered() == 1)
        with running(a_handler(), using=hinted):
            wait_until(lambda: registered() == 2)
            published = []

            def publish_one() -> None:
                published.append(publish("orders", 1))

            # Nearly always the first one. A hint may be lost where the server is slow.
            wait_until(lambda: publish_one() or first.poll() is not None)

            wait_until(lambda: finished(hinted) == len(published))
        assert first.wait() == -signal.SIGKILL


@pytest.mark.once
def test_a_registration_that_is_lost_costs_the_time_to_a_poll(hinted: str) -> None:
    with running(a_handler(), using=hinted):
        wait_until(lambda: registered() == 1)
        sql("DELETE FROM django_mq_idle")  # as a crash of the server does, which empties the table

        publish("orders", 1)

        wait_until(lambda: finished(hinted) == 1)


def test_a_listening_connection_that_is_cut_costs_the_time_to_a_poll(hinted: str) -> None:
    with running(a_handler(), using=hinted) as worker:
        for number in range(5):
            wait_until(lambda: worker.runtime.hears and registered() == 1)
            sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 28018")

            publish("orders", number)

            wait_until(lambda: finished(hinted) == number + 1)  # noqa: B023 - called at once


def test_a_scheduled_message_is_handled_when_it_is_due(hinted: str) -> None:
    with running(a_handler(), using=hinted):
        wait_until(lambda: registered() == 1)

        publish("orders", 1, delay=0.3)

        wait_until(lambda: finished(hinted) == 1)


@pytest.mark.once
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_of_the_server_costs_no_message(  # noqa: PLR0917 - fixtures
    postgresql_server: PostgreSQL,
    settings: Settings,
    seldom: dict[str, float],
    django_db_blocker: DjangoDbBlocker,
    caplog: pytest.LogCaptureFixture,
    end: str,
) -> None:
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as alias:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, **seldom}
        with running(a_handler(), using=alias) as worker:
            wait_until(lambda: registered(alias) == 1)

            getattr(postgresql_server, end)()
            wait_until(lambda: "PostgreSQL's NOTIFY cannot be used" in caplog.text)
            postgresql_server.start()

            connections[alias].close()
            publish("orders", 1)  # the worker may not listen again yet
            wait_until(lambda: finished(alias) == 1)
            wait_until(lambda: worker.runtime.hears and registered(alias) == 1)
            publish("orders", 2)
            wait_until(lambda: finished(alias) == 2)
        assert caplog.text.count("PostgreSQL's NOTIFY works again") == 1


@pytest.mark.once
def test_an_alias_that_leads_to_another_database_is_not_heard(
    postgresql_server: PostgreSQL, settings: Settings, django_db_blocker: DjangoDbBlocker
) -> None:
    with a_site_on(postgresql_server.url, settings, django_db_blocker) as elsewhere:
        assert "LISTEN_DATABASE" in PostgreSQLNotifier(ALIAS, listen_alias=elsewhere).problem()


def test_an_alias_of_the_same_database_is_heard(notifier: PostgreSQLNotifier) -> None:
    assert PostgreSQLNotifier(ALIAS, listen_alias=ALIAS).problem() == ""
