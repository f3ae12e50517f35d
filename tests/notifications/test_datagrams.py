"""HINTS names a class of another package, and django_mq uses it as its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.api import publish
from django_mq.checks import check_settings
from django_mq.delivery.queues import declare
from django_mq.diagnosis.doctor.examination import examine
from django_mq.notifications.base import Wake, queue_topic
from django_mq.notifications.registry import notifier
from django_mq.seams.findings import Level
from django_mq.stores.registry import shared_store
from tests.notifications.datagrams import DatagramNotifier
from tests.services.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

PATH = "tests.notifications.datagrams.DatagramNotifier"


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sockets lie in a folder with a short path, as an address takes about 100 bytes."""
    folder = Directory("hints")
    monkeypatch.setenv("HINT_FOLDER", str(folder.path))
    yield
    folder.remove()


def name(settings: Settings, path: str) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "HINTS": path, "REDIS_URL": None}


@pytest.mark.django_db(transaction=True)
def test_a_published_message_wakes_a_listener_over_it(settings: Settings) -> None:
    name(settings, PATH)
    declare(shared_store("default"), "orders")
    wake = Wake()
    listener = notifier().listen(wake)
    listener.subscribe([queue_topic("orders")])

    publish("orders", {})

    assert isinstance(notifier(), DatagramNotifier)
    assert wake.wait(30)
    listener.close()
    wake.close()


@pytest.mark.django_db
def test_the_doctor_examines_it(settings: Settings) -> None:
    name(settings, PATH)

    [found] = [finding for finding in examine("default", patience_seconds=30) if finding.about == "hints"]

    assert (found.level, found.sentence) == (Level.OK, f"A hint went through {PATH} and came back.")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere.Notifier", "No module named 'nowhere'"),
        ("django_mq.notifications.base.Wake", "is no class of notifiers"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_class_that_cannot_be_used_is_reported_and_fails_no_publisher(
    settings: Settings, caplog: pytest.LogCaptureFixture, path: str, why: str
) -> None:
    name(settings, path)
    declare(shared_store("default"), "orders")

    publish("orders", {})

    assert why in caplog.text
    [checked] = check_settings()
    assert (checked.id, why in checked.msg) == ("django_mq.E011", True)
    found = [finding for finding in notifier().findings() if finding.level is Level.PROBLEM]
    assert [why in finding.sentence for finding in found] == [True]
