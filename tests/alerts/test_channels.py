"""A webhook gets a signed request, is not followed elsewhere, and cannot hold the sender."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from django_mq.alerts.channels import NotSentError, mail, post, send
from django_mq.alerts.models import AlertNotice, RecordedAlert
from django_mq.engine.decisions.alerts import AlertTarget
from tests.alerts.conftest import KEY, SECRET

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.alerts.conftest import Webhook

BEGAN = datetime(2031, 1, 1, tzinfo=UTC)
HOSTILE = "a\r\nBcc: <b@example.com>\x1b[31m</script>"


def a_notice(**values: Any) -> AlertNotice:
    given = {"pk": 7, "cause": "late", "about": HOSTILE, "level": "problem", "sentence": HOSTILE}
    return AlertNotice(pk=3, alert=RecordedAlert(**given, began_at=BEGAN, seen_at=BEGAN), news="began", **values)


def test_a_request_is_signed_and_says_what_stands(webhook: Webhook) -> None:
    send(AlertTarget(name="ops", webhook=webhook.address, secret=KEY), [a_notice()], BEGAN)

    [(path, headers, body)] = webhook.got
    assert path == "/hook?token=t0p-s3cret"
    signed = ".".join((headers["webhook-id"], headers["webhook-timestamp"], body.decode())).encode()
    wanted = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert headers["webhook-timestamp"] == str(int(BEGAN.timestamp()))
    given = json.loads(body)
    assert given["type"] == "django_mq.alerts"
    assert given["data"]["alerts"][0] | {"sentence": "", "about": ""} == {
        "id": 7,
        "news": "began",
        "cause": "late",
        "about": "",
        "level": "problem",
        "sentence": "",
        "began_at": BEGAN.isoformat(),
        "ended_at": None,
        "lasted_seconds": 0.0,
    }


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (302, "answers with a redirect (302): give its final address."),
        (500, "answers with the status 500."),
        (None, "has not answered in time."),
    ],
)
def test_an_answer_that_is_no_yes_is_an_error_without_the_address(
    webhook: Webhook, status: int | None, words: str
) -> None:
    webhook.status = status

    with pytest.raises(NotSentError) as caught:
        post(webhook.address, b"{}", {}, seconds=0.5 if status is None else 60)

    assert str(caught.value) == f"The webhook {words}"
    assert [path for path, _, _ in webhook.got] == ["/hook?token=t0p-s3cret"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/t0p-s3cret", "https://t0p-s3cret.invalid/"])
def test_a_webhook_that_is_not_there_is_an_error_without_the_address(address: str) -> None:
    with pytest.raises(NotSentError) as caught:
        post(address, b"{}", {})

    assert "s3cret" not in str(caught.value)


def test_a_mail_has_one_line_as_its_subject(mailoutbox: list[Any], settings: Settings) -> None:
    send(AlertTarget(name="team", email=("team@example.com",)), [a_notice()] * 3, BEGAN)

    [sent] = mailoutbox
    assert sent.subject.splitlines() == [sent.subject]
    assert sent.subject.endswith("and 2 more")
    assert sent.recipients() == ["team@example.com"]

    settings.EMAIL_BACKEND = "tests.alerts.nowhere.Backend"
    with pytest.raises(NotSentError, match=r"The mail was not accepted \(\w+\): see the settings"):
        mail(["team@example.com"], "subject", "text")


def test_the_command_tries_a_target(
    webhook: Webhook, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DJANGO_MQ = {"ALERTS": {"ops": {"webhook": webhook.address, "secret": SECRET}}}

    call_command("mq_alerts", "--test", "ops")
    assert capsys.readouterr().out == "ops has taken the message.\n"
    assert "This is a test of mq_alerts" in json.loads(webhook.got[0][2])["text"]

    with pytest.raises(CommandError, match=r"There is no target 'team'; .* has ops"):
        call_command("mq_alerts", "--test", "team")
