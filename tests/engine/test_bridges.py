"""What the setting BRIDGES may have, how addresses are shown, and circles."""

from __future__ import annotations

from ssl import CERT_NONE
from types import MappingProxyType
from typing import Any

import pytest

from django_mq.engine.decisions.bridges import (
    Bridge,
    BridgeCondition,
    BridgeOptions,
    bridges_of,
    circles_of,
    condition_of,
    in_turn,
    is_bridge_problem,
    tls_of,
    without_credentials,
)
from django_mq.errors import ConfigurationError

URL = "amqp://user:t0p-s3cret@host:5672/vhost"


def test_bridges_have_what_the_setting_says() -> None:
    found = bridges_of(
        {
            "rabbit": {"url": URL, "declare": True, "arguments": {"x-queue-type": "quorum"}, "in_flight": 7},
            "later": {"url_variable": "RABBITMQ_URL"},
            "vault": {"url": lambda: URL},
        }
    )

    assert found["rabbit"].options == BridgeOptions(
        declare=True, arguments={"x-queue-type": "quorum"}, in_flight=7
    )
    assert found["later"] == Bridge(name="later", url_variable="RABBITMQ_URL")
    environment = {"RABBITMQ_URL": URL}
    assert [each.address(environment) for each in found.values()] == [URL] * 3
    shown = [each.shown_address(environment) for each in found.values()]
    assert shown == ["amqp://host:5672/vhost", "amqp://host:5672/vhost", "***"]
    assert found["later"].shown_address({}) == "$RABBITMQ_URL"
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["rabbit"], "give a dictionary of bridges"),
        ({"a b": {"url": URL}}, "'a b' is no name"),
        ({"a": URL}, "'a' has no dictionary"),
        ({"a": {}}, "needs either a url or a url_variable"),
        ({"a": {"url": URL, "url_variable": "A"}}, "needs either a url or a url_variable"),
        ({"a": {"url": URL, "exchnge": "x"}}, "has 'exchnge'; use arguments, confirm_seconds"),
        ({"a": {"url": "user:t0p-s3cret@host"}}, "has a url that has no scheme"),
        ({"a": {"url": "amqp://user:t0p-s3cret"}}, "has a url that cannot be read"),
        ({"a": {"url": f"{URL};t0p-s3cret"}}, "has a url that has no scheme"),
        ({"a": {"url": 7}}, "has a url that is no text"),
        ({"a": {"url_variable": URL}}, "no name of an environment variable"),
        ({"a": {"url": URL, "exchange": "x" * 256}}, "as exchange; give a text of at most 255 bytes"),
        ({"a": {"url": URL, "in_flight": 0}}, "has 0 as in_flight; give a number from 1"),
        ({"a": {"url": URL, "in_flight": True}}, "has True as in_flight"),
        ({"a": {"url": URL, "confirm_seconds": -1}}, "has -1 as confirm_seconds; give seconds"),
        ({"a": {"url": URL, "mandatory": "yes"}}, "has 'yes' as mandatory; give True or False"),
        ({"a": {"url": URL, "arguments": [1]}}, "as arguments; give a dictionary"),
        ({"a": {"url": URL, "transport_options": "t0p-s3cret"}}, "something else as transport_options"),
    ],
)
def test_a_wrong_bridge_is_refused_without_its_address(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        bridges_of(given)

    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_function_or_a_variable_with_a_wrong_address_is_refused_without_it() -> None:
    for bridge in (Bridge(name="a", url=lambda: "t0p-s3cret"), Bridge(name="a", url_variable="A")):
        with pytest.raises(ConfigurationError, match="'a'") as caught:
            bridge.address({"A": "amqp://t0p-s3cret:x"} if bridge.url_variable else {})
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="The environment variable A of the bridge 'a' is not set"):
        Bridge(name="a", url_variable="A").address({})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "amqp://host:5672/vhost"),
        ("amqp://u:p/s3cret@x#y?z@host//", "amqp://host//"),
        ("sqs://KEY:s3cret@?token=s3cret", "sqs://"),
        ("redis://:s3cret@a:1/0;redis://:s3cret@b:2/0", "redis://a:1/0;redis://b:2/0"),
        ("rediss://host/0?password=s3cret", "rediss://host/0"),
        ("s3cret", "***"),
        ("user:s3cret@host://x", "***"),
        ("memory://", "memory://"),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_each_turn_begins_with_another_address() -> None:
    assert [in_turn("a;b;c", turn) for turn in (0, 1, 5)] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert in_turn("a", 7) == ["a"]


@pytest.mark.parametrize(
    ("given", "address", "tls"),
    [
        (False, "amqp://host", False),
        (False, "amqps://host", {"server_hostname": "host"}),
        (True, "amqp://host", {"server_hostname": "host"}),
        (MappingProxyType({"ca_certs": "a"}), "amqp://host", {"server_hostname": "host", "ca_certs": "a"}),
        ({"server_hostname": "name"}, "amqps://host", {"server_hostname": "name"}),
        ({"cert_reqs": CERT_NONE}, "amqps://host", {"cert_reqs": CERT_NONE}),
        ({"ssl_cert_reqs": None}, "rediss://host", {"ssl_cert_reqs": None}),
        (True, "redis://host", True),
    ],
)
def test_amqp_compares_the_name_in_the_certificate(given: Any, address: str, tls: Any) -> None:
    assert tls_of(given, address) == tls


def test_each_circle_is_found_once() -> None:
    links = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "e"), ("d", "f")]

    assert circles_of(links) == [["b", "c"], ["e"]]
    assert circles_of([("a", "b"), ("b", "c"), ("a", "c")]) == []


@pytest.mark.parametrize(
    ("connections", "is_late", "condition", "is_problem"),
    [
        ((), False, BridgeCondition.STOPPED, False),
        ((), True, BridgeCondition.STOPPED, True),
        (("away", "connected"), False, BridgeCondition.FORWARDS, False),
        (("away", "connected"), True, BridgeCondition.LATE, False),
        (("away", "blocked"), False, BridgeCondition.BLOCKED, True),
        (("away",), True, BridgeCondition.AWAY, True),
    ],
)
def test_what_a_bridge_does_follows_from_its_connections(
    connections: tuple[str, ...], is_late: bool, condition: BridgeCondition, is_problem: bool
) -> None:
    found = condition_of(connections, is_known=True, is_late=is_late)

    assert (found, is_bridge_problem(found, is_late=is_late)) == (condition, is_problem)
    unknown = condition_of(connections, is_known=False, is_late=is_late)
    assert (unknown, is_bridge_problem(unknown, is_late=is_late)) == (BridgeCondition.UNKNOWN, True)
