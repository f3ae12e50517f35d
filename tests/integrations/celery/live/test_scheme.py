"""Programs that say ``django-mq://`` and import nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

ROOT = Path(__file__).parents[4]

#: Each publishes one message; none of their settings names the broker.
PROGRAMS = {
    "a Celery app": """
from celery import Celery
Celery("plain", broker="django-mq://").send_task("greet")
""",
    "Kombu with its own queue": """
from kombu import Connection, Queue
with Connection("django-mq://") as connection:
    connection.Producer().publish("hello", routing_key="celery", declare=[Queue("celery")])
""",
    "Kombu alone, once Django is set up": """
import django, sys
django.setup()
assert "kombu" not in sys.modules
from kombu import Connection
with Connection("django-mq://") as connection:
    connection.SimpleQueue("celery").put("hello")
""",
    "Kombu alone, which is told the transport": """
from kombu import Connection
with Connection(transport="django_mq.integrations.celery.transport:Transport") as connection:
    connection.SimpleQueue("celery").put("hello")
""",
}
LIGHT = """
import sys
import kombu.serialization
from kombu.transport import TRANSPORT_ALIASES
assert "django-mq" in TRANSPORT_ALIASES
assert "django.conf" not in sys.modules, "each program with Kombu would import Django"
assert "celery" not in sys.modules, "each program with Kombu would import Celery"
"""


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_program_publishes_without_importing_anything_of_ours(sites: Sites, program: str) -> None:
    with sites("sqlite") as site:
        environment = site.environment(DJANGO_SETTINGS_MODULE="tests.settings.sqlite")

        run(program, environment)

        assert [row.queue.name for row in site.rows()] == ["celery"]


def test_those_who_use_kombu_for_something_else_hardly_notice(sites: Sites) -> None:
    with sites("sqlite") as site:
        run(LIGHT, site.environment())


@pytest.mark.once
def test_a_worker_whose_app_only_names_the_url_is_found_from_the_command_line(sites: Sites) -> None:
    with sites("sqlite") as site:
        (site.directory / "plain.py").write_text(
            "from celery import Celery\n"
            "app = Celery('plain', broker='django-mq://', set_as_current=True)\n"
            "app.conf.imports = ['tests.journeys.project.tasks']\n"
        )
        settings = "tests.settings.sqlite"
        worker = site.worker(DJANGO_SETTINGS_MODULE=settings, PYTHONPATH=f"{ROOT}:{site.directory}")
        worker.app = "plain"
        with worker:
            command = [sys.executable, "-m", "celery", "-b", "django-mq://", "inspect", "ping", "-d", worker.name]
            environment = site.environment(DJANGO_SETTINGS_MODULE=settings)
            answer = run(None, environment, [*command, "-t", str(PATIENCE_SECONDS)])

            assert "pong" in answer
            assert worker.stop() == 0


def run(program: str | None, environment: dict[str, str], command: list[str] | None = None) -> str:
    """Run a program in a process of its own; return what it said."""
    done = subprocess.run(
        command or [sys.executable, "-c", str(program)],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
