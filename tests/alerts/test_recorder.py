"""Alerts begin and end in rows, once, and each target is told once of each."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.alerts.extension import find
from django_mq.alerts.models import AlertNotice, RecordedAlert
from django_mq.alerts.observed import Observation
from django_mq.alerts.recorder import KEPT, prune, record
from django_mq.alerts.sender import LEASE, send_due
from django_mq.engine.decisions.alerts import MOST_TRIES, AlertTarget
from tests.conftest import ALIASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.core.mail import EmailMessage

    from tests.alerts.conftest import Webhook

NOW = datetime.now(UTC)
LATE = Observation("late", "orders", "problem", "The oldest message has waited for 10 min.")
PAUSED = Observation("paused", "letters", "notice", "It is paused.")
TEAM = AlertTarget(name="team", email=("team@example.com",))

pytestmark = [
    pytest.mark.parametrize(
        "alias",
        [
            pytest.param(alias, marks=pytest.mark.django_db(databases=[alias]), id=name)
            for alias, name in ALIASES.items()
        ],
    )
]


def look(
    alias: str, minutes: float, *found: Observation, targets: Sequence[AlertTarget] = (TEAM,), **given: Any
) -> int:
    """Look as a leader does so many minutes later; return how many notices were sent."""
    note(alias, minutes, *found, targets=targets, **given)
    return send_due(targets, NOW + timedelta(minutes=minutes), using=alias)


def note(alias: str, minutes: float, *found: Observation, targets: Sequence[AlertTarget], **given: Any) -> None:
    given = {"after_seconds": 60, "quiet_seconds": 300} | given
    record(found, targets, NOW + timedelta(minutes=minutes), using=alias, **given)


def test_a_target_is_told_once_that_an_alert_lasts_and_once_that_it_is_over(
    alias: str, mailoutbox: list[EmailMessage]
) -> None:
    sent = [look(alias, minute, LATE, PAUSED) for minute in (0, 0.5, 1, 2, 12)]
    sent += [look(alias, minute) for minute in (13, 16, 18, 19)]

    assert sent == [0, 0, 1, 0, 0, 0, 0, 1, 0]
    began, over = mailoutbox
    assert (began.subject, began.to) == ("[django_mq] problem late orders", ["team@example.com"])
    assert began.body == "problem late orders: The oldest message has waited for 10 min."
    assert over.body == "problem late orders: over after 12 min."
    rows = RecordedAlert.objects.using(alias)
    assert {(row.cause, row.ended_at, row.standing) for row in rows} == {
        ("late", NOW + timedelta(minutes=12), None),
        ("paused", NOW + timedelta(minutes=12), None),
    }


def test_what_comes_and_goes_is_one_alert(alias: str, mailoutbox: list[EmailMessage]) -> None:
    for minute in range(40):
        look(alias, minute, *([LATE] if minute % 4 == 0 else []))

    assert len(mailoutbox) == 1
    assert RecordedAlert.objects.using(alias).count() == 1


def test_what_is_short_or_snoozed_is_told_to_nobody(alias: str, mailoutbox: list[EmailMessage]) -> None:
    look(alias, 0, LATE)
    for minute in range(1, 20):
        look(
            alias,
            minute,
            PAUSED,
            snoozed={("paused", "letters")},
            targets=(AlertTarget(name="all", email=TEAM.email, level="notice"),),
        )

    assert mailoutbox == []


def test_an_alert_that_gets_worse_is_told_from_then_on(alias: str, mailoutbox: list[EmailMessage]) -> None:
    for minute in range(5):
        look(alias, minute, LATE._replace(level="notice"))
    assert mailoutbox == []

    look(alias, 5, LATE)
    look(alias, 6, LATE._replace(level="notice"))
    assert len(mailoutbox) == 1


def test_alerts_that_begin_together_are_one_message(alias: str, mailoutbox: list[EmailMessage]) -> None:
    many = [LATE._replace(about=f"queue {number:02}") for number in range(60)]

    assert [look(alias, minute, *many) for minute in (0, 1, 2)] == [0, 50, 10]
    assert [len(mail.body.splitlines()) for mail in mailoutbox] == [50, 10]


def test_a_webhook_that_is_away_is_tried_again_with_the_same_id_and_then_given_up(
    alias: str, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    target, webhook.status = AlertTarget(name="ops", webhook=webhook.address), 503
    minutes = (0, 1, 1.2, 1.6, 3, 6, 12, 24, 48, 96, 200)
    for minute in minutes:
        look(alias, minute, LATE, *([PAUSED] if minute > 1 else []), targets=(target,))

    assert len({headers["webhook-id"] for _, headers, _ in webhook.got}) == 1
    assert len(webhook.got) == MOST_TRIES
    [notice] = AlertNotice.objects.using(alias)
    assert (notice.tries, notice.next_at, notice.sent_at) == (MOST_TRIES, None, None)
    assert notice.error == "The webhook answers with the status 503."
    assert "is given up after 8 tries" in caplog.text
    assert "s3cret" not in caplog.text

    RecordedAlert.objects.using(alias).update(seen_at=datetime.now(UTC))
    [finding] = find(alias)
    assert (finding.about, finding.level.value) == ("alerts for ops", "problem")
    assert "1 message about an alert was not sent. The webhook answers with the status 503." in finding.sentence


def test_a_process_that_dies_while_it_sends_leaves_the_notice_to_another(alias: str, webhook: Webhook) -> None:
    target = AlertTarget(name="ops", webhook=webhook.address)
    for minute in (0, 1):
        record(
            [LATE], (target,), NOW + timedelta(minutes=minute), after_seconds=60, quiet_seconds=300, using=alias
        )
    now, rows = NOW + timedelta(minutes=1), AlertNotice.objects.using(alias)
    # As the process that has taken it leaves it.
    assert rows.update(next_at=now + LEASE, tries=1) == 1

    assert send_due((target,), now, using=alias) == 0
    assert send_due((target,), now + LEASE, using=alias) == 1
    assert send_due((target,), now + 2 * LEASE, using=alias) == 0
    [(_, _, body)] = webhook.got
    assert json.loads(body)["data"]["alerts"][0]["news"] == "began"


def test_a_target_that_the_settings_have_no_more_gets_nothing(alias: str) -> None:
    for minute in (0, 1):
        note(alias, minute, LATE, targets=[TEAM])

    assert send_due((), NOW, using=alias) == 0
    [notice] = AlertNotice.objects.using(alias)
    assert (notice.next_at, notice.error) == (None, "The settings have no such target any more.")


def test_alerts_that_are_over_are_deleted_later(alias: str) -> None:
    look(alias, 0, LATE)
    look(alias, 1, LATE)
    look(alias, 10)
    over = NOW + timedelta(minutes=1)

    assert prune(over + KEPT, using=alias) == 0
    assert prune(over + KEPT + timedelta(seconds=1), using=alias) == 1
    assert not AlertNotice.objects.using(alias).exists()
