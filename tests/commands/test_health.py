"""mq_health: an answer in time, with any problem."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F

from django_mq.api import pause, publish
from django_mq.delivery.operator.bindings import bind
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import Message
from django_mq.stores.records import ClaimRequest, SessionInfo, Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite", once="postgresql")

#: A machine that stands still is no database that does not answer.
PATIENTLY = ("--timeout", "60")
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=("orders",))


@pytest.fixture(autouse=True)
def orders(committed_database: str) -> None:
    declare(shared_store(committed_database), "orders")


def alerts(*arguments: Any) -> list[str]:
    """Return what ails; the exit code must agree."""
    out = io.StringIO()
    code = 0
    try:
        call_command("mq_health", *map(str, arguments), *PATIENTLY, "--json", stdout=out)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    answer = json.loads(out.getvalue())
    assert code == (0 if answer["well"] else 1)
    assert answer["well"] is not bool(answer["alerts"])
    return answer["alerts"]  # type: ignore[no-any-return]


def test_a_database_with_queues_is_well(committed_database: str, run: Run) -> None:
    assert run("mq_health", *PATIENTLY) == "All is well.\n"


def test_an_old_message_raises_an_alert_unless_its_queue_is_paused(committed_database: str) -> None:
    publish("orders")

    assert alerts("--max-age", 3600) == []
    (alert,) = alerts("--max-age", -1)
    assert alert.startswith("Queue 'orders': its oldest ready message has waited ")
    pause("orders")
    assert alerts("--max-age", -1) == []


def test_dead_letters_raise_an_alert_beyond_their_number(committed_database: str) -> None:
    store = shared_store(committed_database)
    publish("orders")
    session = store.sessions.open(WORKER, deadline_seconds=60)
    (claimed,) = store.claims.claim(session, ClaimRequest(queues=("orders",), credit=1)).claimed
    store.settlements.settle(session, [Settlement(claimed.id, claimed.claim, Verdict.DEAD)])

    assert alerts("--max-dead", 1) == []
    assert alerts("--max-dead", 0) == ["Queue 'orders': 1 dead letter."]


def test_dead_letters_are_warnings_if_nothing_limits_them(committed_database: str, run: Run) -> None:
    create_queue("letters", {}, using=committed_database)
    edit_queue("orders", {"dead_letter_queue": "letters"}, using=committed_database)
    publish("letters")
    publish("letters")
    Message.objects.using(committed_database).update(dead_reason="boom")

    assert run("mq_health", *PATIENTLY) == "Warning: Queue 'letters': 2 dead letters.\n"
    answer = json.loads(run("mq_health", *PATIENTLY, "--json"))
    assert (answer["well"], answer["alerts"]) == (True, [])
    assert answer["warnings"] == ["Queue 'letters': 2 dead letters."]
    assert json.loads(run("mq_health", *PATIENTLY, "--json", "--max-dead", "2"))["warnings"] == []


def test_a_dead_letter_queue_has_letters_and_nobody_who_waits(committed_database: str) -> None:
    create_queue("letters", {}, using=committed_database)
    edit_queue("orders", {"dead_letter_queue": "letters"}, using=committed_database)
    publish("letters")
    Message.objects.using(committed_database).update(
        published_at=F("published_at") - timedelta(days=1), dead_reason="boom"
    )

    assert alerts("--max-age", 3600, "--max-dead", 1) == []
    assert alerts("--max-dead", 0) == ["Queue 'letters': 1 dead letter."]
    (asked,) = alerts("letters", "--max-age", 3600)
    assert asked.startswith("Queue 'letters': its oldest ready message has waited ")


def test_a_queue_bound_to_a_dead_letter_exchange_takes_dead_letters(committed_database: str) -> None:
    create_queue("letters", {}, using=committed_database)
    edit_queue("orders", {"dead_letter_exchange": "failures"}, using=committed_database)
    bind("failures", "letters", pattern="orders", using=committed_database)
    publish("letters")
    Message.objects.using(committed_database).update(dead_reason="boom")

    assert alerts("letters", "--workers", "--max-dead", 0) == ["Queue 'letters': 1 dead letter."]


def test_a_queue_without_a_worker_raises_an_alert_if_one_is_demanded(committed_database: str) -> None:
    assert alerts("--workers") == ["Queue 'orders': no live worker takes from it."]
    shared_store(committed_database).sessions.open(WORKER, deadline_seconds=60)
    assert alerts("--workers") == []


def test_an_unknown_queue_is_an_alert(committed_database: str) -> None:
    assert alerts("ordres") == ["There is no queue 'ordres'. Did you mean 'orders'?"]


def test_no_time_at_all_is_refused(committed_database: str, run: Run) -> None:
    with pytest.raises(CommandError, match="more than 0"):
        run("mq_health", "--timeout", "0")


PROBE = """
import sys
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_mq"],
    ROOT_URLCONF="no.such.urls",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": "x", "HOST": "127.0.0.1", "PORT": sys.argv[1],
    }},
    # This Redis never answers, like the database: a probe that asked it would wait.
    DJANGO_MQ={"REDIS_URL": f"redis://127.0.0.1:{sys.argv[1]}"},
)
import django
django.setup()
from django.core.management import call_command
try:
    call_command("mq_health", timeout=float(sys.argv[2]))
finally:
    print("tasks" if any(name in sys.modules for name in ("celery", "redis", "kombu")) else "no tasks")
"""


def asked(port: int, patience: float) -> subprocess.CompletedProcess[str]:
    """Run the probe in a process of its own, with database and Redis at this port."""
    return subprocess.run(
        [sys.executable, "-c", PROBE, str(port), str(patience)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_database_that_never_answers_is_reported_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        probe = asked(deaf.getsockname()[1], 0.5)

    assert probe.stdout == "The database has not answered within 500 ms.\nno tasks\n", probe.stderr
    assert probe.returncode == 1


def test_a_database_that_is_down_is_reported_as_such(free_port: int) -> None:
    probe = asked(free_port, 60)

    assert probe.stdout.startswith("The database cannot be used now"), probe
    assert probe.stdout.endswith("\nno tasks\n")
    assert probe.returncode == 1
