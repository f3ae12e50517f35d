"""The benchmark command runs and reports; no time it measures decides anything."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from django.core.management import call_command

from django_mq.models import History, Message, Queue

if TYPE_CHECKING:
    from pathlib import Path


def test_every_figure_is_reported_in_a_table_and_as_json(committed_database: str, tmp_path: Path) -> None:
    printed, file = io.StringIO(), tmp_path / "bench.json"

    call_command("mq_bench", quick=True, no_celery=True, repeats=1, json=str(file), stdout=printed)

    document = json.loads(file.read_text())
    names = [result["name"] for result in document["results"]]
    assert "publish, one transaction each" in names
    assert "native drain, one process, credit 1,000" in names
    assert all(result["value"] > 0 and result["samples"] for result in document["results"])
    assert all(name in printed.getvalue() for name in names)


def test_on_postgresql_every_rate_of_publishing_stands_beside_a_raw_limit(
    committed_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"

    call_command("mq_bench", quick=True, no_celery=True, repeats=1, json=str(file), stdout=io.StringIO())

    results = json.loads(file.read_text())["results"]
    limited = [result for result in results if result["name"].startswith("publish")]
    assert all((result["ratio"] is not None) == (committed_database == "postgresql") for result in limited)


def test_the_benchmark_leaves_nothing_behind(committed_database: str) -> None:
    call_command("mq_bench", quick=True, no_celery=True, repeats=1, stdout=io.StringIO())

    assert not Queue.objects.filter(name__startswith="mq_bench").exists()
    assert not Message.objects.exists()
    assert not History.objects.exists()
