"""The benchmark runs and reports; no time it measures decides anything."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from django_mq.benchmarks.measures import Measure
from django_mq.models import History, Message, Queue
from tests.benchmarks.__main__ import parse
from tests.benchmarks.store.catalogue import chosen
from tests.benchmarks.store.figures import NAMES, ON_POSTGRESQL, ON_SQLITE, judged, reported

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.on("sqlite")

CHEAP = ("publish_one", "publish_many", "drain_one")
#: Of these three, by the alias of the test database.
TARGETS = {"default": [0.6, None, 0.4], "postgresql": [0.75, 0.5, 0.6], "mariadb": [None, None, None]}
KEYS = ["name", "value", "unit", "limit", "ratio", "target", "met", "runs"]


@pytest.mark.once
def test_every_measure_is_reported_in_a_table_and_as_json(
    committed_database: str, process_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"

    # A process of its own: it makes an alias, and a test's process may use those of the test only.
    printed = bench(process_environment(committed_database), *CHEAP, "--json", str(file))

    document = json.loads(file.read_text())
    assert list(document) == ["machine", "measures"]
    assert [measure["name"] for measure in document["measures"]] == list(CHEAP)
    assert all(list(measure) == KEYS for measure in document["measures"])
    assert all(measure["value"] > 0 and measure["runs"] for measure in document["measures"])
    assert all(name in printed for name in CHEAP)
    assert "target" not in printed
    assert "MISSED" not in printed
    assert all(measure["ratio"] > 0 for measure in document["measures"])
    assert [measure["target"] for measure in document["measures"]] == TARGETS[committed_database]
    assert all((measure["met"] is None) == (measure["target"] is None) for measure in document["measures"])
    assert_nothing_is_left(committed_database)


@pytest.mark.once
def test_the_command_prints_figures_beside_those_of_plain_sql(
    committed_database: str, process_environment: Callable[[str], dict[str, str]]
) -> None:
    environment = process_environment(committed_database)

    printed = run(environment, "django", "mq_bench", "--quick", "--json")

    figures = json.loads(printed)
    assert [figure["name"] for figure in figures] == ["publish_one", "publish_many", "drain", "pickup_p50"]
    assert all(figure["ratio"] == figure["value"] / figure["limit"] for figure in figures)
    assert_nothing_is_left(committed_database)
    lines = run(environment, "django", "mq_bench", "--quick").splitlines()
    assert len(lines) == 4
    assert all(" the database alone " in line and line.endswith(("messages/s", "ms")) for line in lines)


@pytest.mark.once
@pytest.mark.django_db(databases=["default"], transaction=True)
def test_a_pick_up_stands_beside_a_raw_one_where_redis_carries_the_hints(
    process_environment: Callable[[str], dict[str, str]], redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"

    bench(
        process_environment("default") | {"REDIS_URL": redis_url}, "pickup_p50", "pickup_p99", "--json", str(file)
    )

    measures = json.loads(file.read_text())["measures"]
    assert [measure["name"] for measure in measures] == ["pickup_p50", "pickup_p99"]
    assert all(measure["ratio"] > 0 and measure["target"] is None for measure in measures)


def bench(environment: dict[str, str], *arguments: str) -> str:
    return run(environment, "tests.benchmarks", "--quick", "--repeats", "1", *arguments)


def run(environment: dict[str, str], module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def test_what_cannot_be_measured_here_takes_no_time() -> None:
    everything = chosen(())

    assert [item.names for item in everything if item.is_large and item.seconds(quick=False, large=False)] == []
    assert sum(item.seconds(quick=False, large=True) for item in everything) > 20 * 60
    assert sum(item.seconds(quick=False, large=False) for item in everything) < 8 * 60


def assert_nothing_is_left(alias: str) -> None:
    assert not Queue.objects.using(alias).filter(name__startswith="mq_bench").exists()
    assert not Message.objects.using(alias).exists()
    assert not History.objects.using(alias).exists()


def test_an_unknown_measure_is_refused_with_the_names_of_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as refusal:
        parse(["drain_three"])

    assert refusal.value.code == 2
    assert "no measure drain_three; there are publish_one, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "limit", "met"),
    [
        ("publish_one", 75.0, 100.0, True),
        ("publish_one", 74.0, 100.0, False),
        ("pickup_p50", 1.5, 1.0, True),
        ("pickup_p50", 1.6, 1.0, False),
        ("publish_many", 5.0, None, None),
        ("wakeups_per_message", 1.05, None, True),
        ("worker_memory_mib", 21.0, None, False),
    ],
)
def test_a_measure_is_judged_by_its_ratio_or_where_it_has_none_by_its_value(
    name: str, value: float, limit: float | None, met: bool | None
) -> None:
    assert judged(Measure(name, value, "units", limit), ON_POSTGRESQL).met is met


def test_what_cannot_be_measured_is_neither_met_nor_missed() -> None:
    assert [judged(Measure(name, None, ""), ON_POSTGRESQL).met for name in NAMES] == [None] * len(NAMES)


def test_postgresql_has_a_target_for_every_measure() -> None:
    assert tuple(ON_POSTGRESQL) == NAMES


def test_targets_are_printed_where_they_are_asked_for() -> None:
    found = judged(Measure("publish_one", 59.0, "messages/s", 100.0), ON_SQLITE)

    assert "0.6 MISSED" in reported(found, targets=True)
    assert "MISSED" not in reported(found)


def test_a_measure_without_a_target_is_neither_met_nor_missed() -> None:
    found = judged(Measure("publish_many", 1.0, "units", 100.0), ON_SQLITE)

    assert (found.measure.ratio, found.target, found.met) == (0.01, None, None)
