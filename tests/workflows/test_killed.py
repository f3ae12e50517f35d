"""Publishers and workers die at random while workflows run: each effect is there once, and nothing is stuck."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_mq.engine.decisions.workflows import DONE
from django_mq.models import Message
from django_mq.stores.registry import shared_store
from django_mq.workflows.models import StepRun, WorkflowRun
from tests.stores.builders import declare
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.workflows.mortal import EFFECTS, ITEMS, QUEUES, RUNS, SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

#: How often two workers and two publishers die.
ROUNDS = 4


@pytest.fixture
def alias(committed_database: str, settings: Settings) -> Iterator[str]:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **SHORT}
    for queue in QUEUES:
        declare(shared_store(committed_database), queue, backoff_seconds=0, backoff_jitter=0)
    with connections[committed_database].cursor() as cursor:
        cursor.execute(EFFECTS)
    yield committed_database
    with connections[committed_database].cursor() as cursor:
        cursor.execute("DROP TABLE workflow_effect")


def mortal(environment: dict[str, str], role: str, seed: int, number: int = 0) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.workflows.mortal", role, str(seed), str(number)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


def effects_of(alias: str) -> dict[str, Counter[tuple[str, int]]]:
    found: dict[str, Counter[tuple[str, int]]] = {}
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT run, step, number FROM workflow_effect")
        for run, step, number in cursor.fetchall():
            found.setdefault(run, Counter())[step, number] += 1
    return found


@pytest.mark.once
@pytest.mark.parametrize("committed_database", ["default", "postgresql"], indirect=True)
@pytest.mark.django_db(transaction=True, databases=["default", "postgresql"])
def test_workflows_survive_the_death_of_publishers_and_workers(
    alias: str, process_environment: Environment
) -> None:
    environment = process_environment(alias)
    for round_ in range(ROUNDS):
        dying = [mortal(environment, "work", 4 * round_ + seed) for seed in (1, 2)]
        dying += [mortal(environment, "publish", 4 * round_ + 3 + number, number) for number in (0, 1)]
        assert [each.wait(PATIENCE_SECONDS) for each in dying] == [-9] * 4
    for number in (0, 1):
        assert mortal(environment, "publish", 0, number).wait(PATIENCE_SECONDS) == 0
    worker = mortal(environment, "work", 0)
    try:
        running = WorkflowRun.objects.using(alias).exclude(state__in=[state.value for state in DONE])
        wait_until(lambda: not running.exists(), "the ends of all workflows")
    finally:
        worker.terminate()
        assert worker.wait(PATIENCE_SECONDS) == 0

    runs = {str(run.pk): run for run in WorkflowRun.objects.using(alias)}
    flows = [run for run in runs.values() if run.name == "flow"]
    assert sorted(int(run.label) for run in flows) == list(range(RUNS))
    effects, wrong = effects_of(alias), []
    for run in flows:
        failed = int(run.label) % 4 == 3
        expected = {("first", -1), *(("each", number) for number in range(ITEMS))}
        expected |= (
            {("unfirst", -1), *(("uneach", number) for number in range(ITEMS))} if failed else {("last", -1)}
        )
        if effects[str(run.pk)] != Counter(expected) or run.state != ("failed" if failed else "succeeded"):
            wrong.append((run.label, run.state, effects[str(run.pk)]))
    assert wrong == []
    inner = [run for run in runs.values() if run.name == "inner"]
    assert {run.state for run in inner} == {"succeeded"}
    assert [effects[str(run.pk)] for run in inner] == [Counter({("leaf one", -1), ("leaf two", -1)})] * RUNS
    states = Counter(StepRun.objects.using(alias).order_by().values_list("state", flat=True))
    assert set(states) == {"succeeded", "compensated", "failed"}
    # The dead letters of the steps that fail.
    assert Message.objects.using(alias).count() == RUNS // 4
