"""What deletes the past finds it by its age in an index, and never reads what is kept.

The plans are read over tables with rows in them: of a few rows a database reads all, and rightly.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

from django_mq.models import Attempt, History, Rollup, TaskResult, TenantStep
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from django.db.models import Model

ROWS = 4000
#: Statement to the table it deletes from and the index that must lead it there.
PRUNING: dict[str, tuple[type[Model], str]] = {
    "prune_history": (History, "django_mq_history_pruning"),
    "prune_attempts": (Attempt, "django_mq_attempt_pruning"),
    "prune_steps": (Rollup, "django_mq_rollupstep_once"),
    "prune_tenant_steps": (TenantStep, "django_mq_tenantstep_age"),
    "prune_task_results": (TaskResult, "django_mq_taskresult_pruning"),
}
EXPLAIN = {"postgresql": "EXPLAIN", "mysql": "EXPLAIN", "sqlite": "EXPLAIN QUERY PLAN"}
ANALYZE = {"postgresql": "ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}
#: SQLite gives the index of a constraint a name of its own.
RENAMED = ("sqlite_autoindex_django_mq_rollupstep_1", "django_mq_rollupstep_once")
#: How each database says that it reads a table from end to end.
WHOLE = {
    "postgresql": r"Seq Scan on {}\b",
    "mysql": r"\('\w+', '\w+', '{}', '(ALL|index)'",
    "sqlite": r"SCAN {}(?! USING)",
}


def a_row(model: type[Model], moment: datetime) -> Model:
    """Return a row of the past that ended at this moment."""
    common: dict[str, Any] = {"message_id": uuid4(), "queue_name": "orders"}
    times: dict[type[Model], dict[str, Any]] = {
        History: dict.fromkeys(("published_at", "ready_at", "finished_at"), moment)
        | {"priority": 4, "outcome": 1, "attempts": 0},
        Attempt: {"number": 1, "failed_at": moment, "error": "ValueError"},
        Rollup: {"begins_at": moment},
        TenantStep: {"begins_at": moment, "seconds": 60, "kind": 1},
        TaskResult: dict.fromkeys(("started_at", "last_attempted_at", "finished_at", "expires_at"), moment)
        | {"successful": True, "record": "{}"},
    }
    if model in {Rollup, TenantStep}:
        del common["message_id"]
    return model(**common, **times[model])


def fill(model: type[Model], alias: str) -> None:
    """Write rows of which a hundredth is over its time, and tell the database how many there are."""
    kept, over = timezone.now() + timedelta(minutes=1), timezone.now() - timedelta(days=100)
    moments = [(kept if number % 100 else over) + timedelta(minutes=number) for number in range(ROWS)]
    model._default_manager.using(alias).bulk_create([a_row(model, moment) for moment in moments], 500)
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute(ANALYZE[connection.vendor].format(model._meta.db_table))


def plan_of(alias: str, name: str) -> Iterator[str]:
    """Yield the steps of a statement's plan."""
    store: Any = shared_store(alias)
    with connections[alias].cursor() as cursor:
        params = store.database.fitted(
            {"limit": 10, "whole": False, "seconds": 60, "before": timezone.now() - timedelta(days=2)}
        )
        cursor.execute(f"{EXPLAIN[connections[alias].vendor]} {store.database.text(name)}", params)
        for step in cursor.fetchall():
            yield str(step).replace(*RENAMED)


# MariaDB commits when it is told to count.
@pytest.mark.once
@pytest.mark.parametrize("name", PRUNING)
def test_what_is_over_its_time_is_found_by_its_index(committed_database: str, name: str) -> None:
    model, index = PRUNING[name]
    fill(model, committed_database)

    steps = list(plan_of(committed_database, name))

    whole = WHOLE[connections[committed_database].vendor].format(model._meta.db_table)
    assert any(index in step for step in steps), steps
    assert not [step for step in steps if re.search(whole, step)]


#: How each database says that it reads an index from an end to a border only.
BOUNDED = {
    "postgresql": r"Index Cond: \(\(?finished_at <",
    "mysql": r"'range', .*django_mq_history_pruning",
    "sqlite": r"SEARCH h USING INDEX django_mq_history_pruning \(finished_at<\?\)",
}


@pytest.mark.once
def test_history_that_no_queue_may_be_done_with_is_not_walked(committed_database: str) -> None:
    fill(History, committed_database)

    steps = list(plan_of(committed_database, "prune_history"))

    bounded = BOUNDED[connections[committed_database].vendor]
    assert any(re.search(bounded, step) for step in steps), steps
