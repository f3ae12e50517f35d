"""mq_doctor: everything that may be wrong is found, with a way to mend it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.api import consumer, pause, publish
from django_mq.delivery.consumer.handlers import forget
from django_mq.delivery.operator.bindings import bind
from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.delivery.queues import declare
from django_mq.diagnosis.doctor import database as database_questions
from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.models import Message, Operation, Queue, WorkerSession
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat, SessionInfo
from django_mq.stores.registry import shared_store
from tests.stores.builders import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django import Settings

    from tests.commands.conftest import Run

#: A machine that stands still is no database that does not answer.
PATIENTLY = ("--timeout", "60")
WORKER = SessionInfo(name="dead-worker", kind="native", host="h", pid=1, version="1", queues=("orders",))

#: Migrate an alias that the router refuses, let the router allow it, and do what the doctor says.
KEPT_AWAY = """
import io, re
import django
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

settings.configure(
    INSTALLED_APPS=["django_mq"],
    DATABASES={
        name: {"ENGINE": "django.db.backends.sqlite3", "NAME": name + ".db"} for name in ("default", "archive")
    },
    DATABASE_ROUTERS=["django_mq.routers.MQRouter"],
)
django.setup()


def examine():
    out = io.StringIO()
    try:
        call_command("mq_doctor", "--timeout", "60", "--database", "archive", stdout=out)
    except SystemExit:
        pass
    print(out.getvalue())
    return out.getvalue()


call_command("migrate", "django_mq", "--database", "archive", verbosity=0)
with override_settings(DJANGO_MQ={"DATABASE": "archive"}):
    for command in re.findall(r"manage.py (migrate .*? --database archive)", examine()):
        call_command(*command.split(), verbosity=0)
    examine()
"""

#: The headers of a Celery task.
TASK = {"lang": "py", "task": "orders.add", "retries": 0, "timelimit": [None, None]}

pytestmark = pytest.mark.usefixtures("database")


@contextmanager
def handler(queue: str) -> Iterator[None]:
    """Register a handler of the queue for a while."""
    consumer(queue)(lambda _message: None)
    try:
        yield
    finally:
        forget(queue)


class Findings:
    """What the doctor says, and whether it thinks all is well."""

    def __init__(self, run: Run, *arguments: str) -> None:
        out = io.StringIO()
        self.code = 0
        try:
            call_command("mq_doctor", "--json", *PATIENTLY, *arguments, stdout=out)
        except SystemExit as end:
            self.code = int(str(end.code))
        self.all: list[dict[str, str]] = json.loads(out.getvalue())

    def about(self, subject: str, level: str) -> dict[str, str]:
        """Return the one finding of this kind; all but good ones say how to mend it."""
        (found,) = [item for item in self.all if (item["about"], item["level"]) == (subject, level)]
        assert level == "ok" or found["mend"]
        return found


@pytest.fixture
def orders(database: str) -> str:
    """A queue with a live consumer."""
    declare(shared_store(database), "orders")
    return "orders"


def test_patience_has_no_upper_end(run: Run, orders: str) -> None:
    assert Findings(run, "--timeout", "1e300").code == 0


def test_an_option_that_the_redis_client_cannot_read_fails_no_publisher(
    run: Run, database: str, orders: str, settings: Settings
) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": "redis://localhost/0?socket_timeout=soon"}

    publish(orders)

    assert "option" in Findings(run).about("redis", "problem")["sentence"]


def test_a_healthy_site_is_said_to_be_healthy(run: Run, database: str, orders: str) -> None:
    shared_store(database).sessions.open(WORKER, deadline_seconds=60)
    publish(orders)

    findings = Findings(run)

    assert findings.code == 0, findings.all
    assert [item["about"] for item in findings.all] == [
        "settings",
        "hints",
        "database",
        "clock",
        "tables",
        "privileges",
        "space",
        "leases",
        "loops",
        "locks",
        "orphans",
        "states",
        "queues",
        "options",
        "releases",
        "operations",
    ]
    assert {item["level"] for item in findings.all} == {"ok"}


def test_it_speaks_to_people_too(run: Run, orders: str) -> None:
    pause(orders, reason="stock\x1b[2Jtaking")

    printed = run("mq_doctor", *PATIENTLY)

    assert "ok       settings: DJANGO_MQ is well formed." in printed
    assert "notice   queue orders: Paused (stock\\x1b[2Jtaking)." in printed
    assert "mend: manage.py mq_resume orders" in printed


def test_a_dead_worker_that_nobody_reaps_is_a_problem(run: Run, database: str, orders: str) -> None:
    store = shared_store(database)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    publish(orders)
    store.claims.claim(session, ClaimRequest(queues=(orders,), credit=1))
    WorkerSession.objects.using(database).update(deadline="2001-01-01T00:00:00Z")

    findings = Findings(run)

    assert findings.code == 1
    found = findings.about("leases", "problem")
    assert "dead-worker" in found["sentence"]
    assert "mq_maintenance" in found["mend"]


def test_a_claim_of_nobody_is_a_problem(run: Run, database: str, orders: str) -> None:
    store = shared_store(database)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    publish(orders)
    store.claims.claim(session, ClaimRequest(queues=(orders,), credit=1))
    WorkerSession.objects.using(database).all().delete()

    assert (
        "1 message is claimed by sessions that do not exist"
        in Findings(run).about("leases", "problem")["sentence"]
    )


def test_messages_without_a_queue_are_a_problem(run: Run, database: str, orders: str) -> None:
    publish(orders)
    with connections[database].cursor() as cursor:
        cursor.execute("DELETE FROM django_mq_queue")

    findings = Findings(run)

    assert findings.code == 1
    assert "1 message belongs to a queue that does not exist" in findings.about("orphans", "problem")["sentence"]


def test_a_backlog_without_a_consumer_is_a_problem(run: Run, orders: str) -> None:
    publish(orders)

    with handler(orders):
        found = Findings(run).about("queue orders", "problem")

    assert "1 message is ready and no live worker takes from it" in found["sentence"]
    assert "mq_worker --queues orders" in found["mend"]


def test_messages_of_a_queue_without_a_handler_need_one(run: Run, orders: str) -> None:
    publish(orders)

    found = Findings(run).about("queue orders", "problem")

    assert found["sentence"] == "1 message is ready and this project has no handler of the queue."
    assert '@consumer("orders")' in found["mend"]


def test_celery_tasks_without_a_worker_need_a_celery_worker(run: Run, orders: str) -> None:
    publish(orders, headers=TASK)

    found = Findings(run).about("queue orders", "problem")

    assert found["mend"] == "Start one: celery -A PROJECT worker -Q orders."


def test_celery_tasks_in_the_queue_of_a_handler_are_a_notice(run: Run, orders: str) -> None:
    publish(orders, headers=TASK)
    publish(orders)

    with handler(orders):
        found = Findings(run).about("queue orders", "notice")

    assert found["sentence"] == "It has a handler, and Celery tasks are in it."
    assert "mq_worker gives the tasks back" in found["mend"]


def test_handlers_that_cannot_be_loaded_are_a_problem(
    run: Run, orders: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "tests.integrations.celery.live.broken"]
    monkeypatch.setenv("BROKEN", "import")

    found = Findings(run).about("database", "notice")

    assert found["sentence"].startswith("django_mq.W007: The handlers cannot be loaded: ModuleNotFoundError")


def test_messages_that_came_due_while_no_worker_lived_are_a_problem(run: Run, database: str, orders: str) -> None:
    publish(orders, deliver_at=timezone.now() + timedelta(hours=1))
    Message.objects.using(database).update(deliver_at=timezone.now() - timedelta(minutes=1))

    with handler(orders):
        found = Findings(run).about("queue orders", "problem")

    assert found["sentence"] == "Scheduled messages are due and no live worker takes from it."


def test_a_paused_queue_is_a_notice_and_strictly_a_problem(run: Run, orders: str) -> None:
    pause(orders, reason="stocktaking")

    assert "Paused (stocktaking)" in Findings(run).about(f"queue {orders}", "notice")["sentence"]
    assert (Findings(run).code, Findings(run, "--strict").code) == (0, 1)


def test_a_message_that_is_given_back_again_and_again_is_a_notice(run: Run, database: str, orders: str) -> None:
    ids = [publish(orders, delay=3600) for _ in range(3)]
    rows = Message.objects.using(database)
    rows.update(redelivered=True)
    for id_, properties in zip(ids, (None, {"mq_releases": 100}, {"mq_releases": 101}), strict=True):
        rows.filter(message_id=id_).update(properties=properties)

    found = Findings(run).about(f"queue {orders}", "notice")
    assert found["sentence"] == (
        f"1 message was given back for a while more than 100 times, without an attempt: {ids[2]} 101 times."
    )
    assert "message.releases" in found["mend"]


def test_dead_letters_are_a_notice(run: Run, database: str, orders: str) -> None:
    publish(orders)
    Message.objects.using(database).update(state=Message.Status.DEAD)

    assert "1 dead letter." in Findings(run).about(f"queue {orders}", "notice")["sentence"]


def test_dead_letters_of_other_queues_are_a_notice(run: Run, database: str, orders: str) -> None:
    declare(shared_store(database), "dead")
    dead = Queue.objects.using(database).get(name="dead")
    Queue.objects.using(database).filter(name=orders).update(dead_letter_queue=dead)
    publish("dead")
    Message.objects.using(database).update(dead_reason="boom")

    assert "1 dead letter of other queues" in Findings(run).about("queue dead", "notice")["sentence"]


def test_a_message_that_was_published_to_a_dead_letter_queue_is_a_problem(
    run: Run, database: str, orders: str
) -> None:
    declare(shared_store(database), "dead")
    dead = Queue.objects.using(database).get(name="dead")
    Queue.objects.using(database).filter(name=orders).update(dead_letter_queue=dead)
    publish("dead")

    found = Findings(run).about("queue dead", "problem")
    assert "1 message is ready, no dead letters, and no live worker" in found["sentence"]
    assert "mq_redrive dead --to QUEUE" in found["mend"]


@pytest.mark.parametrize(("most", "mend"), [(20, "delayed retry"), (None, "mq_queue edit orders")])
def test_a_cycle_of_dead_letters_is_named(
    run: Run, database: str, orders: str, most: int | None, mend: str
) -> None:
    def named() -> list[dict[str, str]]:
        return [each for each in Findings(run).all if "come back" in each["sentence"]]

    declare(shared_store(database), "later")
    edit_queue(orders, {"dead_letter_exchange": "failures", "max_dead_letter_cycles": most}, using=database)
    back = {"dead_letter_exchange": DEFAULT_EXCHANGE, "dead_letter_routing_key": orders}
    edit_queue("later", back, using=database)
    assert named() == []

    bind("failures", "later", exchange_type="fanout", using=database)

    [found] = named()
    assert "later -> orders -> later" in found["sentence"]
    assert mend in found["mend"]


def test_a_dead_letter_exchange_without_a_binding_is_a_notice(run: Run, database: str, orders: str) -> None:
    edit_queue(orders, {"dead_letter_exchange": "failures"}, using=database)

    found = Findings(run).about("queue orders", "notice")
    assert "No queue is bound to its dead-letter exchange 'failures'" in found["sentence"]
    assert "manage.py mq_bindings --bind failures QUEUE" in found["mend"]

    declare(shared_store(database), "dead")
    bind("failures", "dead", exchange_type="fanout", using=database)
    assert Findings(run).about("queues", "ok")


def test_missing_migrations_are_a_problem(run: Run, database: str) -> None:
    MigrationRecorder(connections[database]).migration_qs.filter(app="django_mq").delete()

    found = Findings(run).about("migrations", "problem")

    assert "0001_squashed" in found["sentence"]
    assert "migrate django_mq --database" in found["mend"]


def test_migrations_of_which_only_some_were_applied_before_they_were_squashed_are_a_problem(
    run: Run, database: str
) -> None:
    MigrationRecorder(connections[database]).migration_qs.filter(name="0017_queue_options").delete()

    found = Findings(run).about("migrations", "problem")

    assert "some of the replaced migrations are already applied" in found["sentence"]
    assert "upgrade" in found["mend"]


def test_migrations_that_were_applied_before_they_were_squashed_need_nothing(run: Run, database: str) -> None:
    MigrationRecorder(connections[database]).migration_qs.filter(name__contains="squashed").delete()

    assert "All migrations are applied" in Findings(run).about("tables", "ok")["sentence"]


def test_a_missing_table_and_a_missing_column_are_a_problem(run: Run, database: str) -> None:
    if not connections[database].features.can_rollback_ddl:
        pytest.skip("features.can_rollback_ddl: the tables would be missing in every later test")
    with connections[database].cursor() as cursor:
        cursor.execute("DROP TABLE django_mq_attempt")
        cursor.execute("ALTER TABLE django_mq_history DROP COLUMN headers")

    sentence = Findings(run).about("tables", "problem")["sentence"]

    assert "django_mq_attempt" in sentence
    assert "django_mq_history.headers" in sentence


@pytest.mark.once
def test_tables_that_a_router_kept_away_come_with_the_commands_that_the_doctor_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEPT_AWAY], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "problem  tables: The migrations are recorded, but there are no tables." in done.stdout
    assert "ok       tables: All migrations are applied" in done.stdout


def test_a_clock_that_is_off_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_questions, "SKEW_SECONDS", -1.0)

    assert "Synchronise" in Findings(run).about("clock", "problem")["mend"]


def test_wrong_settings_are_a_problem_and_the_end_of_other_questions(run: Run, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "AUTO_DECLAER": True}

    findings = Findings(run)

    assert findings.code == 1
    assert "AUTO_DECLAER" in findings.about("settings", "problem")["sentence"]
    assert len(findings.all) == 1


def test_redis_that_answers_is_well(run: Run, settings: Settings, redis_url: str) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": redis_url, "REDIS_TIMEOUT_SECONDS": 30.0}

    assert "came back" in Findings(run).about("redis", "ok")["sentence"]


def test_redis_that_is_away_is_a_problem(run: Run, settings: Settings, free_port: int) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "REDIS_URL": f"redis://127.0.0.1:{free_port}/0"}

    found = Findings(run).about("redis", "problem")

    assert "REDIS_URL" in found["mend"]


@pytest.mark.on("postgresql")
def test_a_database_that_is_away_is_a_problem_and_the_end_of_its_questions(
    process_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    environment = process_environment("default") | {"DATABASE_URL": f"sqlite:///{tmp_path}/no/folder/db"}

    done = subprocess.run(
        [sys.executable, "-m", "django", "mq_doctor", *PATIENTLY],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout.splitlines()[-2].startswith("problem  database: 'default' cannot be used: ")
    assert done.stdout.splitlines()[-1].endswith("mend: Start the database, or correct DATABASES['default'].")
    assert done.stderr == ""


def test_a_missing_index_and_a_missing_column_are_a_problem(run: Run, database: str) -> None:
    if not connections[database].features.can_rollback_ddl:
        pytest.skip("features.can_rollback_ddl: they would be missing in every later test")
    with connections[database].cursor() as cursor:
        cursor.execute("DROP INDEX django_mq_message_due")
        cursor.execute("ALTER TABLE django_mq_attempt DROP COLUMN detail")

    sentence = Findings(run).about("tables", "problem")["sentence"]

    assert "the index django_mq_message_due of django_mq_message" in sentence
    assert "django_mq_attempt.detail" in sentence


def test_missing_privileges_are_a_problem_and_the_end_of_other_questions(run: Run, database: str) -> None:
    if database != "postgresql":
        pytest.skip("SQLite has no users, and MariaDB's tests run without any")
    with connections[database].cursor() as cursor:
        cursor.execute("CREATE ROLE mq_reader")
        cursor.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO mq_reader")
        cursor.execute("SET LOCAL ROLE mq_reader")

    findings = Findings(run)

    found = findings.about("privileges", "problem")
    assert "INSERT on django_mq_message" in found["sentence"]
    assert "SELECT on" not in found["sentence"]
    assert "Grant" in found["mend"]
    assert findings.all[-1] == found


def test_sequences_that_may_not_be_used_are_a_notice(run: Run, database: str) -> None:
    if database != "postgresql":
        pytest.skip("only PostgreSQL has sequences with privileges of their own")
    with connections[database].cursor() as cursor:
        cursor.execute("CREATE ROLE mq_writer")
        cursor.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO mq_writer")
        cursor.execute("SET LOCAL ROLE mq_writer")

    found = Findings(run).about("privileges", "notice")

    assert "USAGE on public.django_mq_message_id_seq" in found["sentence"]
    assert "GRANT USAGE ON SEQUENCE" in found["mend"]


def test_a_message_in_an_unknown_state_is_a_problem(run: Run, database: str, orders: str) -> None:
    publish(orders)
    Message.objects.using(database).update(state=9)

    assert "1 message is in a state" in Findings(run).about("states", "problem")["sentence"]


def test_a_queue_of_an_unknown_kind_is_a_problem(run: Run, database: str, orders: str) -> None:
    Queue.objects.using(database).update(kind="heap")

    assert "Its kind is 'heap'" in Findings(run).about(f"queue {orders}", "problem")["sentence"]


@pytest.mark.parametrize("stored", [{"of_tomorrow": 1}, {"backoff_ticks_per_second": -1}, [1]], ids=str)
def test_an_option_that_is_not_known_or_not_taken_is_a_problem(
    run: Run, database: str, orders: str, stored: Any
) -> None:
    Queue.objects.using(database).update(other_options=stored)

    assert f"Its other_options is {str(stored)!r}" in Findings(run).about(f"queue {orders}", "problem")["sentence"]


def test_an_operation_that_no_worker_can_take_over_is_a_problem(run: Run, database: str) -> None:
    late = timezone.now() - timedelta(hours=1)
    operation = Operation.objects.using(database).create(
        act="of_tomorrow", newest=9, created_at=late, beat_at=late
    )

    assert Findings(run).about("operations", "problem")["sentence"].endswith(f"make no progress: {operation.pk}.")


def test_it_asks_no_more_of_many_queues_and_messages_than_of_few(run: Run, database: str, orders: str) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connections[database]) as captured:
            Findings(run)
        return len(captured)

    publish(orders)
    few = asked()
    for number in range(12):
        Queue.objects.using(database).create(name=f"queue {number}")
        publish(f"queue {number}")

    assert asked() <= few  # less, as what Django asks of a database once is known by then


def test_messages_that_no_consumer_wants_are_a_problem(run: Run, database: str, orders: str) -> None:
    publish(orders, headers={"region": "eu"})
    publish(orders, headers={"region": "us"})
    store = shared_store(database)
    told = ConsumerInfo(queue_name=orders, credit_limit=5, selector="region = 'eu'")
    session = open_session(store)
    store.sessions.renew(session, Heartbeat(deadline_seconds=60.0, queues=(orders,), consumers=(told,)))

    found = Findings(run).about("queue orders", "problem")

    assert found["sentence"] == "The selector of no consumer matches 1 message at its head."
