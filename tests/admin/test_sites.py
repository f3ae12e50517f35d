"""The pages on a custom admin site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin import AdminSite
from django.urls import path

from django_mq.admin import register
from django_mq.models import Message

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

operations = AdminSite(name="operations")
register(operations)
urlpatterns = [path("operations/", operations.urls)]


@pytest.mark.django_db
def test_every_link_and_act_stays_on_its_site(browse: Client, make: Make, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    message = make.message(Message.Status.DEAD)
    lists = "/operations/django_mq"

    queues = browse.get(f"{lists}/queue/")
    asked = browse.post(f"{lists}/queue/", {"action": "purge", "_selected_action": [message.queue.pk]})
    shown = browse.get(f"{lists}/message/{message.pk}/change/")

    assert f'href="{lists}/message/?queue=orders&amp;state=3"' in queues.content.decode()
    assert f'href="{lists}/queue/" class="button cancel-link"' in asked.content.decode()
    assert f'action="{lists}/message/"' in shown.content.decode()
    for page in (queues, asked, shown):
        assert '"/admin/' not in page.content.decode()
