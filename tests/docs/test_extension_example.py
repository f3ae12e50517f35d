"""The extension that docs/contributing.md prints does what the page says."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from django_mq.api import publish
from django_mq.checks import check_settings
from django_mq.diagnosis.doctor.examination import examine
from django_mq.models import Message, Queue
from django_mq.stores.registry import shared_store
from tests.docs.pages import DOCS, python
from tests.support.maintenance import run_maintenance

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings


@pytest.fixture
def _breaker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the extension as printed, with the settings as printed."""
    (code,) = (text for text in python(DOCS / "contributing.md") if text.startswith("# breaker/extension.py"))
    (setting,) = (text for text in python(DOCS / "contributing.md") if text.startswith("# settings.py"))
    module = ModuleType("breaker.extension")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "breaker.extension", module)
    given: dict[str, Any] = {}
    exec(setting, given)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, **given["DJANGO_MQ"]}


@pytest.mark.django_db
@pytest.mark.usefixtures("_breaker")
def test_the_extension_pauses_the_queue_alerts_and_has_a_panel(client: Client, admin_user: Any) -> None:
    store = shared_store("default")
    assert check_settings() == []
    for number in range(3):
        publish("orders", number)
    Message.objects.update(state=Message.Status.DEAD)

    done = run_maintenance(store)

    queue = Queue.objects.get()
    assert (done["breaker.pause"], queue.paused, queue.paused_reason) == (1, True, "too many dead letters")
    assert run_maintenance(store)["breaker.pause"] == 0
    sentences = [finding.sentence for finding in examine(store.alias, patience_seconds=60)]
    assert "It has 3 dead letters, and is paused." in sentences
    client.force_login(admin_user)
    page = client.get(reverse("admin:django_mq_queue_change", args=[queue.pk])).content.decode()
    assert "3 dead letters; the queue is paused at 3." in page
    overview = client.get(reverse("admin:django_mq_queue_overview")).content.decode()
    assert "Redrive them, then run manage.py mq_resume orders." in overview
