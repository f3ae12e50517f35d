"""The dashboard, the alerts and the page speak of metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.queues import declare
from django_mq.engine.histograms import as_text, histogram_of
from django_mq.integrations.prometheus.figures import read
from django_mq.models import Rollup, WorkerSession
from django_mq.rollups.duty import sum_up
from django_mq.stores.records import SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings

DOCS = Path(__file__).parents[3] / "docs"
NAME = re.compile(r"\bdjango_mq_[a-z_]+")


#: A metric with what it is narrowed by.
SELECTED = re.compile(r"\b(django_mq_[a-z_]+)(?:\{([^}]*)\})?")
#: One label of a selection, and its value.
LABEL = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
#: Labels that Prometheus adds: the scraped process.
TARGET = {"job", "instance"}
GROUPED = re.compile(r"\b(?:on|by|ignoring|without)\s*\(([a-z_, ]*)\)")


def a_site_at_work(queue: str) -> None:
    """A queue with a worker, so that each figure has a value."""
    store = shared_store("default")
    declare(store, queue)
    worker = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=(queue,))
    session = WorkerSession.objects.get(pk=store.sessions.open(worker, deadline_seconds=60))
    session.consumers.create(queue_name=queue, credit_limit=10)
    sum_up(store, 1000)
    minute = Rollup.objects.filter(seconds=60).latest("begins_at").begins_at
    spans = dict.fromkeys(("waits", "runs"), as_text(histogram_of([1])))
    Rollup.objects.create(begins_at=minute, queue_name=queue, accepted=1, **spans)


@pytest.fixture
def labels(db: None, settings: Settings) -> dict[str, dict[str, set[str]]]:
    """Each metric with its labels and the values they can have, those of queues aside."""
    bridged = {"BRIDGES": {"rabbit": {"url": "memory://"}}, "QUEUES": {"orders": {"bridge": "rabbit"}}}
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **bridged}
    a_site_at_work("orders")
    found: dict[str, dict[str, set[str]]] = {}
    for metric in read("default"):
        known = found.setdefault(metric.name, {})
        for sample in metric.samples:
            for name, value in sample.labels.items():
                known.setdefault(name, set()).add(value)
    return found


@pytest.fixture
def names(labels: dict[str, dict[str, set[str]]]) -> set[str]:
    return set(labels)


def expressions() -> list[tuple[str, str]]:
    """Return what the dashboard and the rules ask, each with the words that name its labels."""
    dashboard = json.loads((DOCS / "monitoring/grafana-dashboard.json").read_text())
    asked = [(one["expr"], one["legendFormat"]) for panel in dashboard["panels"] for one in panel["targets"]]
    rules = (DOCS / "monitoring/alerts.yml").read_text().split("- alert: ")[1:]
    asked += [(rule.split("expr:")[1].split(" for:")[0].split(" labels:")[0], rule) for rule in rules]
    return asked


@pytest.mark.parametrize(
    "file", ["monitoring/grafana-dashboard.json", "monitoring/alerts.yml", "how-to/operations/monitor.md"]
)
def test_every_metric_that_is_named_exists(names: set[str], file: str) -> None:
    named = set(NAME.findall((DOCS / file).read_text()))

    assert named
    assert named <= names


def test_the_page_names_every_metric(names: set[str]) -> None:
    assert names <= set(NAME.findall((DOCS / "how-to/operations/monitor.md").read_text()))


@pytest.mark.parametrize(("expression", "words"), expressions())
def test_what_is_asked_can_be_answered(
    expression: str, words: str, labels: dict[str, dict[str, set[str]]]
) -> None:
    asked = SELECTED.findall(expression)
    shown = set(re.findall(r"\$labels\.([a-z_]+)", words)) | set(re.findall(r"{{([a-z_]+)}}", words))
    grouped = {name.strip() for group in GROUPED.findall(expression) for name in group.split(",")}

    assert asked
    assert all(expression.count(one) == expression.count(other) for one, other in ("()", "{}", "[]"))
    assert shown <= set(labels[asked[0][0]])
    for metric, chosen in asked:
        assert grouped <= set(labels[metric]) | TARGET
        for name, wanted in LABEL.findall(chosen):
            assert name in set(labels[metric]) | TARGET
            if name not in {"queue", *TARGET}:
                assert set(wanted.split("|")) <= labels[metric][name]


def test_the_dashboard_has_a_panel_for_each_question() -> None:
    dashboard = json.loads((DOCS / "monitoring/grafana-dashboard.json").read_text())

    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) >= 8
    assert dashboard["panels"][0]["title"] == "Age of the oldest ready message"
