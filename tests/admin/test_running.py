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

from django_mq.acts.models import Act
from django_mq.api import Effect, cancel
from django_mq.diagnosis.doctor.examination import examine
from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.diagnosis.state.running import running_now, unusual
from django_mq.engine.decisions.unusual import UsualRun
from django_mq.integrations.prometheus.figures import read
from django_mq.models import Message, StopRequest, WorkerSession
from tests.admin.conftest import list_of, page_of, run_action

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

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


def begun(make: Make, seconds: float, *usual: Any, of: str = "shop.report") -> UUID:
    """Let a worker run a task for so long whose message is gone; return the id of the message."""
    session = make.session(kind="celery", heartbeat_at=timezone.now() + timedelta(hours=1))
    row = make.history(queue_name="orders", type=of)
    session.running = [[1, 1, of, seconds, [str(row.message_id), "orders", usual or None]]]
    session.save()
    return row.message_id


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
    shown = browse.get(f"{list_of('queue')}overview/").content.decode()
    address = reverse("admin:django_mq_message_life", args=[message.message_id])
    assert f'<a class="mq-mend" href="{address}">Look at it' in shown


def test_a_task_that_was_acknowledged_when_it_began_is_shown_by_what_its_worker_says(
    site: str, browse: Client, make: Make
) -> None:
    usually(make, 0.001, of="shop.report")  # from the claim to the acknowledgement: not its run
    message_id = begun(make, 1320.0, 20, 2.0, 2.0)
    begun(make, 4000.0, of="shop.unknown")

    [known, unknown] = running_now(using=site)

    assert (known.message_id, known.queue, known.type, known.usual) == (
        message_id,
        "orders",
        "shop.report",
        UsualRun(20, 2.0, 2.0),
    )
    assert (unknown.handler, unknown.usual, unknown.is_unusual) == ("shop.unknown", None, False)
    [finding] = [finding for finding in examine(site, patience_seconds=60.0) if finding.sentence == WORDS]
    assert finding.mend == f"To stop it, run manage.py mq_cancel --running {message_id}. It is lost then."
    assert "lost if it is stopped" in page(browse).content.decode()
    assert browse.get(list_of("workersession")).status_code == 200


def stopped_in_the_admin(browse: Client, message_id: UUID) -> None:
    address = f"{reverse('admin:django_mq_workersession_stop_running')}?run={message_id}"
    assert address in page(browse).content.decode()
    asked = browse.get(address).content.decode()
    assert "lost, and not tried again" in asked
    assert f"mq_cancel --running {message_id}" in asked
    assert not StopRequest.objects.exists()
    answer = browse.post(address, {"confirmed": "yes", "yes": "yes"}, follow=True)
    assert "is told to stop shop.report." in answer.content.decode()


def stopped_by_the_command(_: Client, message_id: UUID) -> None:
    out = StringIO()
    call_command("mq_cancel", str(message_id), running=True, stdout=out)
    assert "Workers still have to stop 1 of them." in out.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("stopped", [stopped_in_the_admin, stopped_by_the_command])
def test_a_task_that_was_acknowledged_when_it_began_is_stopped_and_that_is_known(
    browse: Client, make: Make, stopped: Callable[[Client, UUID], None]
) -> None:
    message_id = begun(make, 1320.0)

    stopped(browse, message_id)

    assert StopRequest.objects.values_list("message_id", "claim").get() == (1, 1)
    assert Act.objects.get().messages.get().message_id == message_id


@pytest.mark.django_db
def test_a_run_that_has_ended_is_not_stopped(browse: Client, make: Make) -> None:
    message_id = begun(make, 1320.0)
    WorkerSession.objects.update(running=None)
    address = f"{reverse('admin:django_mq_workersession_stop_running')}?run={message_id}"

    answer = browse.post(address, {"confirmed": "yes", "yes": "yes"}, follow=True)

    assert "It has ended." in answer.content.decode()
    assert (Act.objects.exists(), StopRequest.objects.exists()) == (False, False)
    assert browse.get(f"{address}no-id", follow=True).status_code == 200
    assert [one.effect for one in cancel([message_id], running=True)] == [Effect.MISSING]


@pytest.mark.django_db
def test_a_runaway_is_stopped_from_the_page(browse: Client, make: Make) -> None:
    [message] = runs(make, 1320.0)

    assert f'value="{message.pk}"' in page(browse).content.decode()
    run_action(browse, "message", "stop", [message], yes="yes")

    assert StopRequest.objects.get().message_id == message.pk


@pytest.mark.django_db
def test_what_the_page_shows_takes_permissions(login_with: Callable[..., Client], make: Make) -> None:
    [message] = runs(make, 1320.0, body=b'{"iban": "DE00"}')
    gone = begun(make, 4000.0)
    client = login_with("view_workersession")
    text = page(client).content.decode()
    refused = client.post(f"{reverse('admin:django_mq_workersession_stop_running')}?run={gone}", {"yes": "yes"})

    assert refused.status_code == 403
    assert "22 min" in text
    assert str(gone) not in text
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
