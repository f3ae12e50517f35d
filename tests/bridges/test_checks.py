"""What ``manage.py check`` says of bridges, without asking a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.bridges.checks import check_bridges
from django_mq.bridges.declared import address_of, bridge_named, shown_address
from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_django import Settings

SECRET = "t0p-s3cret"


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        ({"a": {"url": f"ampq://u:{SECRET}@host"}}, "django_mq.E017", "begins with ampq://"),
        ({"a": {"url": f"amqp://u:{SECRET}"}}, "django_mq.E017", "cannot be read"),
        ({"a": {"url": f"amqp://u:{SECRET}@host", "x": 1}}, "django_mq.E017", "has 'x'; use"),
        ({"a": {"url_variable": "NO_SUCH_VARIABLE"}}, "django_mq.W013", "NO_SUCH_VARIABLE"),
        ({"a": {"url": "amqp://host", "results": True}}, "django_mq.W015", "no result backend"),
        ({"a": {"url": "django-mq:///other", "results": True}}, "django_mq.E017", "leads to a database"),
        ({"a": {"url": "amqp://host", "workers": "cron"}}, "django_mq.E017", "one of all, mq_worker"),
    ],
)
def test_a_wrong_bridge_is_told_with_a_hint_and_no_secret(
    settings: Settings, given: Any, code: str, sentence: str
) -> None:
    settings.DJANGO_MQ = {"BRIDGES": given}

    [found] = check_bridges()

    assert found.id == code
    assert sentence in found.msg
    assert found.hint
    assert SECRET not in f"{found.msg} {found.hint}"


def test_right_bridges_pass(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_OF_TEST", f"amqps://u:{SECRET}@host//")
    settings.DJANGO_MQ = {
        "BRIDGES": {
            "rabbit": {"url_variable": "BROKER_OF_TEST"},
            "vault": {"url": lambda: f"amqp://{SECRET}@host"},
            "site": {"url": "django-mq:///other"},
            "redis": {"url": f"redis://:{SECRET}@host/0"},
        }
    }

    assert check_bridges() == []
    assert shown_address(bridge_named("rabbit")) == "amqps://host//"
    assert SECRET in address_of(bridge_named("vault"))


def test_an_unknown_bridge_is_refused_with_the_names_of_those_there_are(settings: Settings) -> None:
    settings.DJANGO_MQ = {"BRIDGES": {"rabbit": {"url": "amqp://host"}}}

    with pytest.raises(ConfigurationError, match="no bridge 'rabit'; there are: rabbit"):
        bridge_named("rabit")
