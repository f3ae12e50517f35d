"""A site with our backend: ``check`` finds nothing, ``mq_worker`` runs a task, another process reads its value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = """
SECRET_KEY = "none"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_mq"]
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": "{folder}/db.sqlite3",
    "OPTIONS": {{"transaction_mode": "IMMEDIATE", "timeout": 60, "init_command": "PRAGMA journal_mode=WAL;"}},
}}}}
TASKS = {{"default": {{"BACKEND": "django_mq.integrations.tasks.MQBackend", "QUEUES": ["default", "mails"]}}}}
"""
TASKS = """
from django_mq.integrations.tasks.compat import task

@task(queue_name="mails", priority=50)
def greet(name):
    return f"hello {name}"
"""
ENQUEUE = "import django; django.setup(); from shop.tasks import greet; print(greet.enqueue('ann').id)"
ASK = """
import django, json, sys; django.setup()
from shop.tasks import greet
result = greet.get_result(sys.argv[1])
print(json.dumps([result.status, result.return_value, result.attempts]))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "settings.py").write_text(SETTINGS.format(folder=tmp_path))
    (package / "tasks.py").write_text(TASKS)
    return tmp_path


def python(site: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(site), str(Path.cwd())])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop.settings"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_task_of_the_project_goes_through_processes(site: Path) -> None:
    python(site, "-m", "django", "migrate", "--verbosity=0")
    python(site, "-m", "django", "check", "--fail-level=WARNING")
    result = python(site, "-c", ENQUEUE).strip()

    printed = python(site, "-m", "django", "mq_worker", "--until-empty")

    assert "mails (credit 20)" in printed
    assert json.loads(python(site, "-c", ASK, result)) == ["SUCCESSFUL", "hello ann", 1]
