"""The figures of results are measured and reported; no time that is measured decides anything."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.results.figures import AT_MOST, BOUNDS, judged
from tests.conftest import url_or_skip

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.environment import Services


@pytest.mark.once
def test_each_figure_of_results_is_printed_and_written_as_json(services: Services, tmp_path: Path) -> None:
    for name in ("postgresql", "redis"):
        url_or_skip(services, name)
    file = tmp_path / "results.json"
    measures = ("get_solo", "call", "chord_1000", "result_cost")
    command = [sys.executable, "-m", "tests.benchmarks.results", *measures, "--quick", "--repeats", "1"]

    printed = subprocess.run(
        [*command, "--json", str(file)],
        env=services.environment(["postgresql", "redis"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout

    found = {measure["name"]: measure for measure in json.loads(file.read_text())["measures"]}
    assert list(found) == ["get_solo", "call", "chord_1000", "chord_1000_end", "result_cost"]
    assert [name for name, measure in found.items() if measure["limit"] is None] == ["chord_1000_end"]
    assert all(name in printed for name in found)


def test_a_figure_of_results_is_judged_by_its_ratio_or_by_its_value() -> None:
    assert all(judged(name, target, "units", limit=1.0).met for name, target in AT_MOST.items())
    assert not any(judged(name, target * 1.01, "units", limit=1.0).met for name, target in AT_MOST.items())
    assert [judged(name, 1.01, "units").met for name in BOUNDS] == [False] * len(BOUNDS)
