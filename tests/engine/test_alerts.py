"""Which targets are told, and what of the setting is refused, without a secret in the error."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_mq.engine.decisions.alerts import MOST_TRIES, AlertTarget, is_lasting, is_over, next_try, targets_of
from django_mq.errors import ConfigurationError

CAUSES = ("late", "dead")
NOW = datetime(2031, 1, 1, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
MAIL = {"email": ["ops@example.com"]}
HOOK = {"webhook": "https://hooks.example.com/t0p-s3cret"}


def test_targets_have_what_the_setting_says() -> None:
    found = targets_of(
        {"ops": {**HOOK, "secret": SECRET, "level": "notice", "causes": ["dead"]}, "team": MAIL}, CAUSES
    )

    assert found == (
        AlertTarget(
            name="ops", webhook=HOOK["webhook"], secret=b"k" * 24, level="notice", causes=frozenset({"dead"})
        ),
        AlertTarget(name="team", email=("ops@example.com",)),
    )
    assert "s3cret" not in repr(found)
    assert "kkk" not in repr(found)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["ops"], "give a dictionary of targets"),
        ({"": MAIL}, "'' is no name"),
        ({"a\nb": MAIL}, "is no name"),
        ({"ops": "https://t0p-s3cret"}, "'ops' has no dictionary"),
        ({"ops": {}}, "needs either a webhook or an email"),
        ({"ops": {**HOOK, **MAIL}}, "needs either a webhook or an email"),
        ({"ops": {**MAIL, "url": "x"}}, "has 'url'; use causes, email, level, secret, webhook"),
        ({"ops": {"webhook": "ftp://t0p-s3cret"}}, "no http:// or https:// address"),
        ({"ops": {"webhook": "https://user:t0p-s3cret@host/"}}, "without a user's name"),
        ({"ops": {"webhook": "https://host/t0p-s3cret\r\nx: y"}}, "no http:// or https:// address"),
        ({"ops": {"webhook": "https://host:t0p-s3cret/"}}, "no http:// or https:// address"),
        ({"ops": {**HOOK, "secret": "t0p-s3cret"}}, "has a secret that cannot be used"),
        ({"ops": {**HOOK, "secret": "whsec_t0ps3cret"}}, "has a secret that cannot be used"),
        ({"ops": {**MAIL, "secret": SECRET}}, "which only a webhook uses"),
        ({"ops": {"email": "ops@example.com"}}, "no list of 1 to 50 addresses"),
        ({"ops": {"email": ["a@example.com\nbcc: b@example.com"]}}, "no list of 1 to 50 addresses"),
        ({"ops": {**MAIL, "level": "all"}}, "has the level 'all'; use one of notice, problem"),
        ({"ops": {**MAIL, "causes": "dead"}}, "causes that are no list"),
        ({"ops": {**MAIL, "causes": ["death"]}}, "has the causes 'death'; use some of late, dead"),
    ],
)
def test_a_wrong_target_is_refused_without_its_secrets(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        targets_of(given, CAUSES)

    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_target_wants_its_causes_from_its_level_on() -> None:
    problems, dead = AlertTarget(name="a"), AlertTarget(name="b", level="notice", causes=frozenset({"dead"}))

    assert [problems.wants("late", level) for level in ("notice", "problem")] == [False, True]
    assert [dead.wants(cause, "notice") for cause in CAUSES] == [False, True]


def test_an_alert_is_told_when_it_has_lasted_and_is_over_when_it_was_quiet() -> None:
    minute = timedelta(minutes=1)

    assert [is_lasting(NOW, NOW + n * minute, 60) for n in (0, 1)] == [False, True]
    assert [is_over(NOW, NOW + n * minute, 60) for n in (0, 1, 2)] == [False, False, True]


def test_tries_are_further_apart_and_end() -> None:
    waits = [next_try(tries, NOW) for tries in range(1, MOST_TRIES + 1)]

    assert [wait and (wait - NOW).total_seconds() for wait in waits] == [30, 60, 120, 240, 480, 960, 1800, None]
