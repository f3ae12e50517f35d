"""What runs now: how long, how long it usually takes, and a button to stop it. What is unusual is told."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from django_mq.diagnosis.doctor.examination import examine
from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.diagnosis.state.running import running_now, unusual
from django_mq.integrations.prometheus.figures import read
from django_mq.models import Message, StopRequest
from tests.admin.conftest import list_of, page_of, run_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

CLAIMED = Message.Status.CLAIMED
WORDS = "shop.report has been running for 22 min, usually 2 s."


def runs(make: Make, *seconds: float, kind: str = "native", of: str = "report", **values: Any) -> list[Message]:
    """Let a worker handle messages for so long."""
    # A heartbeat of which no time has passed, however slow the machine is.
    session = make.session(kind=kind, running=None, heartbeat_at=timezone.now() + timedelta(hours=1))
    messages = [
        make.message(CLAIMED, session=session, claim=number, claimed_at=timezone.now(), type=of, **values)
        for number, _ in enumerate(seconds)
    ]
    session.running = [
        [one.pk, one.claim, f"shop.{of}", time] for one, time in zip(messages, seconds, strict=True)
    ]
    session.save()
    return messages


def usually(make: Make, seconds: float, of: str = "report", number: int = 20) -> None:
    """Write the history of earlier runs."""
    begin = timezone.now() - timedelta(minutes=30)
    for _ in range(number):
        times = {"ready_at": begin, "claimed_at": begin, "finished_at": begin + timedelta(seconds=seconds)}
        make.history(type=of, **times)


def page(client: Client) -> Any:
    return client.get(reverse("admin:django_mq_workersession_running"))


def test_the_most_unusual_comes_first_with_what_is_usual(site: str, browse: Client, make: Make) -> None:
    usually(make, 2.0)
    usually(make, 900.0, of="import")
    runs(make, 1320.0, 2.5)
    runs(make, 1500.0, of="import")
    runs(make, 4000.0, of="unknown")

    found = running_now(using=site)

    assert [(one.handler, one.seconds) for one in found] == [
        ("shop.report", 1320.0),
        ("shop.import", 1500.0),
        ("shop.report", 2.5),
        ("shop.unknown", 4000.0),
    ]
    assert [(one.usual.runs, one.usual.p50, one.usual.p95) for one in found if one.usual][:1] == [(20, 2.0, 2.0)]
    assert [one.handler for one in unusual(using=site)] == ["shop.report"]
    text = page(browse).content.decode()
    assert '<span class="mq-ago mq-bad">22 min</span>' in text
    assert "660 times" in text


def test_what_a_worker_does_not_hold_any_more_does_not_run(site: str, make: Make) -> None:
    ended, released = runs(make, 100.0, 200.0)
    Message.objects.filter(pk=ended.pk).delete()
    Message.objects.filter(pk=released.pk).update(claim=99)
    runs(make, 300.0, of="late")
    stale = runs(make, 400.0, of="stale")[0].session
    stale.deadline = timezone.now() - timedelta(minutes=1)
    stale.save()

    assert [one.handler for one in running_now(using=site)] == ["shop.late"]


def test_what_runs_unusually_long_is_told_by_the_doctor_probes_metrics_top_and_the_overview(
    site: str, browse: Client, make: Make
) -> None:
    usually(make, 2.0)
    [message] = runs(make, 1320.0)
    out = StringIO()

    findings = [finding for finding in examine(site, patience_seconds=60.0) if finding.sentence == WORDS]
    health = Probe(Demands())._ask(site)
    metrics = {
        tuple(sorted(sample.labels.items())): sample.value
        for metric in read(site)
        if metric.name == "django_mq_extension_findings"
        for sample in metric.samples
    }
    overview = json.loads(browse.get(reverse("admin:django_mq_queue_overview_json")).content)
    call_command("mq_top", "--once", database=site, stdout=out)

    assert [finding.mend for finding in findings] == [
        f"To stop it, run manage.py mq_cancel --running {message.message_id}."
    ]
    assert (health.alerts, [WORDS in warning for warning in health.warnings]) == ([], [True])
    assert metrics[("extension", "running"), ("level", "notice")] == 1
    assert [WORDS in alert["sentence"] for alert in overview["alerts"] if alert["kind"] == "extension"] == [True]
    assert WORDS in out.getvalue()


@pytest.mark.django_db
def test_a_runaway_is_stopped_from_the_page(browse: Client, make: Make) -> None:
    [message] = runs(make, 1320.0)

    assert f'value="{message.pk}"' in page(browse).content.decode()
    run_action(browse, "message", "stop", [message], yes="yes")

    assert StopRequest.objects.get().message_id == message.pk


@pytest.mark.django_db
def test_what_the_page_shows_takes_permissions(login_with: Callable[..., Client], make: Make) -> None:
    [message] = runs(make, 1320.0, body=b'{"iban": "DE00"}')
    client = login_with("view_workersession")
    text = page(client).content.decode()

    assert "22 min" in text
    assert "DE00" not in text
    assert page_of(message) not in text
    assert "<button" not in text.partition('id="content-main"')[2]


@pytest.mark.django_db
def test_without_permission_there_is_no_page(login_with: Callable[..., Client]) -> None:
    client = login_with("view_message", "stop_message")

    assert page(client).status_code == 403
    assert client.get(reverse("admin:django_mq_workersession_running_json")).status_code == 403


@pytest.mark.django_db
def test_hostile_names_are_escaped(browse: Client, make: Make) -> None:
    evil = "<script>alert(1)</script>"
    make.queue("orders")
    runs(make, 1320.0, of=evil, body=evil.encode(), content_type="text/plain")

    for address in ("admin:django_mq_workersession_running", "admin:django_mq_queue_overview"):
        assert evil not in browse.get(reverse(address)).content.decode()
    assert browse.get(list_of("workersession")).status_code == 200
