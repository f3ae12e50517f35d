"""The dashboard, the alerts and the page speak of metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from django_mq.integrations.prometheus.collector import QueueCollector

DOCS = Path(__file__).parents[3] / "docs"
NAME = re.compile(r"\bdjango_mq_[a-z_]+")


@pytest.fixture
def names(database: str) -> set[str]:
    return {metric.name for metric in QueueCollector(cache_seconds=0).collect()}


@pytest.mark.parametrize(
    "file", ["monitoring/grafana-dashboard.json", "monitoring/alerts.yml", "how-to/monitor.md"]
)
def test_every_metric_that_is_named_exists(names: set[str], file: str) -> None:
    named = set(NAME.findall((DOCS / file).read_text()))

    assert named
    assert named <= names


def test_the_page_names_every_metric(names: set[str]) -> None:
    assert names <= set(NAME.findall((DOCS / "how-to/monitor.md").read_text()))


def test_the_dashboard_has_a_panel_for_each_question() -> None:
    dashboard = json.loads((DOCS / "monitoring/grafana-dashboard.json").read_text())

    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) >= 8
    assert dashboard["panels"][0]["title"] == "Age of the oldest ready message"
