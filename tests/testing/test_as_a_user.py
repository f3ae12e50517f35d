"""A project tests its handlers: with Django's test runner, and with pytest in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import every_database

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = """
import os
from tests.settings.databases import from_url

SECRET_KEY = "none"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_mq", "shop"]
DATABASES = {"default": from_url(os.environ["DATABASE_URL"])}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["TEST"] = {"NAME": None}  # in memory, as by default
DJANGO_MQ = {"QUEUES": {"users": {"max_attempts": 2}, "greetings": {}}}
"""
CONSUMERS = """
from django.contrib.auth.models import Group
from django.db import transaction
from django_mq.api import consumer, publish

@consumer("users", transactional=True)
def add(message):
    group = Group.objects.create(name=message.body)
    transaction.on_commit(lambda: publish("greetings", group.pk))

@consumer("greetings")
def greet(message):
    Group.objects.filter(pk=message.body).update(name="greeted")
"""
UNITTEST = """
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection
from django.db.utils import IntegrityError
from django.test import TestCase, TransactionTestCase
from django_mq.api import publish
from django_mq.stores.clock import clock
from django_mq.testing import QueueTestMixin

class Shared:
    def test_a_user_is_greeted(self):
        publish("users", "ann")
        self.assertEqual(self.mq.drain().outcomes, ["accepted", "accepted"])
        self.assertEqual(Group.objects.get(name="greeted").name, "greeted")

    def test_a_second_user_of_the_name_is_a_dead_letter(self):
        Group.objects.create(name="ann")
        publish("users", "ann")
        with self.assertRaises(IntegrityError):
            self.mq.drain()
        self.assertEqual(self.mq.drain(ahead=3600, raise_errors=False).outcomes, ["dead"])
        self.assertEqual([letter.body for letter in self.mq.dead_letters("users")], ["ann"])

class InTransaction(Shared, QueueTestMixin, TestCase):
    @classmethod
    def setUpTestData(cls):
        publish("users", "of the class")

    def test_a_user_is_greeted(self):
        self.assertEqual(self.mq.drain().outcomes, ["accepted", "accepted"])
        self.assertTrue(connection.in_atomic_block)
        self.assertEqual(clock.offset.total_seconds(), 0)

    def test_a_second_user_of_the_name_is_a_dead_letter(self):
        self.mq.drain()
        super().test_a_second_user_of_the_name_is_a_dead_letter()

    async def test_in_a_coroutine(self):
        drained = await sync_to_async(self.mq.drain)()
        self.assertEqual(drained.outcomes, ["accepted", "accepted"])

class Committed(Shared, QueueTestMixin, TransactionTestCase):
    pass
"""
PYTEST = """
import pytest
from django.contrib.auth.models import Group
from django_mq.api import publish

def check(mq, number):
    assert not Group.objects.exists()
    publish("users", f"user {number}", delay=60)
    assert mq.drain().outcomes == []
    assert mq.drain(ahead=60).outcomes == ["accepted", "accepted"]
    assert [message.body for message in mq.published("users")] == [f"user {number}"]

@pytest.mark.django_db
@pytest.mark.parametrize("number", range(4))
def test_in_a_transaction(mq, number):
    check(mq, number)

@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", range(4))
def test_committed(mq, number):
    check(mq, number)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    package = tmp_path / "shop"
    package.mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("consumers", CONSUMERS), ("tests", UNITTEST)):
        (package / f"{name}.py").write_text(text)
    (tmp_path / "test_shop.py").write_text(PYTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


RUNNERS = {
    "django": ("django", "test", "--noinput"),
    "pytest": ("pytest", "-q", "-n", "2", "-p", "django_mq.pytest_plugin", "-p", "no:randomly"),
}


@pytest.mark.once
@pytest.mark.parametrize("committed_database", every_database(transaction=True)[:2], indirect=True)
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_project_tests_its_handlers(
    committed_database: str, process_environment: Callable[..., dict[str, str]], site: Path, runner: str
) -> None:
    path = os.pathsep.join([str(site), str(Path.cwd())])
    environment = process_environment(committed_database, DJANGO_SETTINGS_MODULE="shop.settings", PYTHONPATH=path)
    del environment["PYTEST_CURRENT_TEST"]

    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-m", *RUNNERS[runner]],
        cwd=site,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert ("8 passed" if runner == "pytest" else "Ran 5 tests") in said


def test_the_plugin_imports_neither_django_nor_the_rest() -> None:
    program = "import sys, django_mq.pytest_plugin; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {"pytest", "django_mq"} <= set(done.stdout.split())
    assert "django" not in done.stdout.split()
