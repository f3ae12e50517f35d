"""What extensions find is told by the doctor, probes, metrics and the overview; their panels are on pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from django_mq.diagnosis.doctor.examination import examine
from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.integrations.health import health_page
from django_mq.integrations.prometheus.figures import read
from django_mq.models import Message, Queue
from django_mq.seams.extension import Extension, Panel
from django_mq.seams.findings import notice, ok, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client
    from pytest_django import Settings

    from django_mq.seams.findings import Finding


def spoil(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")


def find(alias: str) -> Iterator[Finding]:
    yield ok("stock", f"{Queue.objects.using(alias).count()} queues are in stock.")
    yield notice("stock", "Pears are few.", "Buy <some>.")
    yield problem("stock", "Apples are out.", "Buy some.")


def break_down(alias: str) -> list[Finding]:
    spoil(alias)
    return []


def show(request: Any, row: Any) -> str:
    return f"<b>{request.user}</b> looks at {row._meta.model_name} {row}"


def show_nothing(request: Any, row: Any) -> str:
    return ""


def fail(request: Any, row: Any) -> str:
    spoil(row._state.db)
    return "never"


SHOP = Extension(
    name="shop",
    findings=(find,),
    panels=(
        Panel(page="queue", title="Stock", content=show),
        Panel(page="message", title="Receipt", content=show),
        Panel(page="queue", title="Empty", content=show_nothing),
    ),
)
BROKEN = Extension(
    name="broken", findings=(break_down,), panels=(Panel(page="queue", title="Sick", content=fail),)
)
NOT_WELL = "The extension 'broken' could not look for problems; the log says why."

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _extended(settings: Settings) -> None:
    names = [f"{__name__}.BROKEN", f"{__name__}.SHOP"]
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "EXTENSIONS": names}


def test_the_doctor_prints_all_that_they_find() -> None:
    found = [
        finding for finding in examine("default", patience_seconds=60) if finding.about in {"stock", "broken"}
    ]

    assert [(each.level.value, each.sentence) for each in found] == [
        ("problem", NOT_WELL),
        ("ok", "0 queues are in stock."),
        ("notice", "Pears are few."),
        ("problem", "Apples are out."),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_probe_of_all_queues_alerts_of_problems_and_warns_of_notices() -> None:
    health = Probe(Demands()).answer(using="default", timeout_seconds=60)

    assert (health.alerts, health.warnings) == (
        [f"broken: {NOT_WELL}", "stock: Apples are out."],
        ["stock: Pears are few."],
    )
    page = health_page(timeout_seconds=60)(RequestFactory().get("/healthz"))
    assert (page.status_code, "stock: Apples are out." in json.loads(page.content)["alerts"]) == (503, True)


@pytest.mark.django_db(transaction=True)
def test_a_probe_of_some_queues_says_nothing_of_the_rest_of_the_site() -> None:
    Queue.objects.create(name="orders")

    assert Probe(Demands(queues=["orders"])).answer(using="default", timeout_seconds=60).well


def test_the_metrics_count_what_they_find() -> None:
    [gauge] = [metric for metric in read("default") if metric.name == "django_mq_extension_findings"]

    assert {tuple(sample.labels.values()): sample.value for sample in gauge.samples} == {
        ("broken", "problem"): 1,
        ("broken", "notice"): 0,
        ("shop", "problem"): 1,
        ("shop", "notice"): 1,
        ("bridges", "problem"): 0,
        ("bridges", "notice"): 0,
        ("unique", "problem"): 0,
        ("unique", "notice"): 0,
        ("running", "problem"): 0,
        ("running", "notice"): 0,
        ("periodic", "problem"): 0,
        ("periodic", "notice"): 0,
        ("alerts", "problem"): 0,
        ("alerts", "notice"): 0,
        ("batches", "problem"): 0,
        ("batches", "notice"): 0,
    }


def test_the_overview_shows_problems_before_notices(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:django_mq_queue_overview")).content.decode()
    alerts = admin_client.get(reverse("admin:django_mq_queue_overview_json")).json()["alerts"]

    assert [(each["urgent"], each["sentence"]) for each in alerts][1:] == [
        (True, "Apples are out. Buy some."),
        (False, "Pears are few. Buy <some>."),
    ]
    assert "Pears are few. Buy &lt;some&gt;." in page


def test_a_panel_is_on_its_page_and_escaped(admin_client: Client, admin_user: Any) -> None:
    queue = Queue.objects.create(name="orders")
    message = Message.objects.create(
        queue=queue, state=1, level=4, priority=4, message_id=uuid4(), published_at=timezone.now(), body=b""
    )

    of_queue = admin_client.get(reverse("admin:django_mq_queue_change", args=[queue.pk])).content.decode()
    of_message = admin_client.get(reverse("admin:django_mq_message_change", args=[message.pk])).content.decode()

    assert "&lt;b&gt;admin&lt;/b&gt; looks at queue orders" in of_queue
    assert "This panel cannot be shown; the log says why." in of_queue
    assert (">Empty<" in of_queue, ">Receipt<" in of_queue) == (False, False)
    assert ">Receipt<" in of_message
