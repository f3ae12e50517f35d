"""The list of alerts shows since when, until, and the targets that were told; nothing of it is markup."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from django_mq.alerts.models import AlertNotice, RecordedAlert
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.django_db


def test_an_alert_has_its_times_and_its_targets(browse: Client) -> None:
    begin = timezone.now() - timedelta(hours=1)
    end = begin + timedelta(minutes=12)
    given = {"cause": "late", "about": "<i>orders", "level": "problem", "sentence": "<i>It is late."}
    row = RecordedAlert.objects.create(**given, began_at=begin, seen_at=end, ended_at=end)
    AlertNotice.objects.create(alert=row, target="ops", news="began", tries=8, error="The webhook is <away>.")
    AlertNotice.objects.create(alert=row, target="team", news="over", tries=1, next_at=end)

    for address in (list_of("recordedalert"), page_of(row)):
        html = browse.get(address).content.decode()
        assert "over after 12 min" in html
        assert "ops: began, not sent. The webhook is &lt;away&gt;." in html
        assert "team: over, about to be sent" in html
        assert "&lt;i&gt;It is late." in html
        assert "<i>" not in html

    assert (
        "late &lt;i&gt;orders" not in browse.get(list_of("recordedalert"), {"status": "standing"}).content.decode()
    )
