"""The comparison with Redis runs and reports; no time it measures decides anything."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.celery.figures import NAMES, judged
from tests.conftest import url_or_skip

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.environment import Services

KEYS = ["name", "value", "unit", "limit", "ratio", "target", "met", "runs"]
CHEAP = ("delay_in_atomic", "delay_alone")


@pytest.mark.once
def test_the_comparison_is_printed_and_written_as_json(services: Services, tmp_path: Path) -> None:
    for name in ("postgresql", "redis"):
        url_or_skip(services, name)
    file = tmp_path / "celery.json"

    printed = compare(services, *CHEAP, "--quick", "--json", str(file))

    measures = json.loads(file.read_text())["measures"]
    assert [measure["name"] for measure in measures] == list(CHEAP)
    assert all(list(measure) == KEYS and measure["limit"] > 0 for measure in measures)
    assert all(name in printed for name in CHEAP)


def compare(services: Services, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.celery", *arguments],
        env=services.environment(["postgresql", "redis"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("name", "value", "limit", "met"),
    [
        ("drain_solo", 300.0, 100.0, True),
        ("drain_solo", 299.0, 100.0, False),
        ("delay_alone", 1.0, 1.0, True),
        ("eta_claim", 1.06, 1.0, False),
        ("eta_worker_memory", 5.1, None, False),
    ],
)
def test_a_figure_is_judged_by_its_ratio_or_where_it_has_none_by_its_value(
    name: str, value: float, limit: float | None, met: bool
) -> None:
    assert judged(name, value, "units", limit=limit).met is met


def test_every_figure_has_a_target() -> None:
    assert [judged(name, 1.0, "units", limit=1.0).target for name in NAMES]
