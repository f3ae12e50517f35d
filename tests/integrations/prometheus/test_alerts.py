"""The alerting rules, run by Prometheus' own tool: each alerts when it should, and not before."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from tests.conftest import skip_or_fail
from tests.integrations.prometheus.test_dashboard import a_site_at_work
from tests.integrations.prometheus.test_metrics import Figures
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = Path(__file__).parents[3] / "docs/monitoring/alerts.yml"
PLAYED = Path(__file__).with_name("alerts.test.yml")


@pytest.fixture
def promtool() -> Callable[..., str]:
    """Run the tool; its complaints fail the test."""
    program = shutil.which("promtool")
    if program is None:
        skip_or_fail(UnavailableError("Prometheus: no promtool on PATH"))

    def run(*arguments: str, given: bytes = b"") -> str:
        done = subprocess.run(
            [program, *arguments], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        said = done.stdout.decode()
        assert done.returncode == 0, said
        return said

    return run


def test_the_rules_are_well_formed(promtool: Callable[..., str]) -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


def test_each_rule_tells_when_it_should(promtool: Callable[..., str], tmp_path: Path) -> None:
    played = tmp_path / "alerts.yml"
    played.write_text(PLAYED.read_text().replace("{RULES}", str(RULES)))

    assert "SUCCESS" in promtool("test", "rules", str(played))


def test_each_rule_is_played_both_ways() -> None:
    rules = re.findall(r"- alert: (\w+)", RULES.read_text())
    silent = re.findall(r"alertname: (\w+), eval_time: \w+, exp_alerts: \[\]", PLAYED.read_text())
    told = re.findall(r"- alertname: (\w+)\n", PLAYED.read_text())

    assert rules
    assert set(told) == set(silent) == set(rules)


@pytest.mark.django_db
def test_prometheus_finds_nothing_to_say_of_the_figures(promtool: Callable[..., str]) -> None:
    a_site_at_work('or"ders\\')
    registry = CollectorRegistry()
    registry.register(Figures("default"))

    assert promtool("check", "metrics", given=generate_latest(registry)) == ""
