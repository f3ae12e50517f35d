"""The broker URL, and what a wrong one says."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from django_mq.errors import BrokerURLError
from django_mq.integrations.celery.url import Address, current, parse

TRANSPORT = "django_mq.integrations.celery.transport:Transport"
WRONG = [
    ("django-mq:///nowhere", "There is no database alias 'nowhere'"),
    ("django-mq://default", "write django-mq:///default"),
    ("django-mq:///default?colour=red", "Unknown options in the broker URL: colour"),
    ("django-mq:///default?priority_order=upside-down", "use amqp or redis"),
    ("django-mq:///default?credit_bytes=0", "credit_bytes=0 is not possible; use a whole number of bytes"),
    ("django-mq:///default?credit_bytes=1e6", "use a whole number of bytes"),
    ("django-mq:///one/two", "is not a database alias"),
]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (None, Address()),
        ("django-mq://", Address()),
        ("django-mq:///", Address()),
        ("django-mq:///Other", Address("Other")),
        ("django-mq:///my%20db", Address("my db")),
        ("django-mq:///Other?priority_order=redis", Address("Other", {"priority_order": "redis"})),
        ("django-mq://?queue_order=listed", Address(None, {"queue_order": "listed"})),
    ],
)
def test_a_url_names_an_alias_and_options(url: str | None, address: Address) -> None:
    assert parse(url) == address


def test_options_may_stand_in_the_transport_options_and_the_url_wins() -> None:
    given = {"priority_order": "redis", "queue_order": "listed", "credit_bytes": 5000}
    address = parse("django-mq://?priority_order=amqp", given)

    assert (address.redis_order, address.credit_bytes) == (False, 5000)
    assert address.listed


def test_transport_options_of_other_transports_are_ignored() -> None:
    assert parse("django-mq://", {"visibility_timeout": 3600}) == Address()


@pytest.mark.parametrize(("url", "sentence"), WRONG[1:])
def test_a_wrong_url_is_a_typed_error_that_says_what_to_write(url: str, sentence: str) -> None:
    with pytest.raises(BrokerURLError, match=sentence):
        parse(url)


def test_another_scheme_is_refused() -> None:
    with pytest.raises(BrokerURLError, match="must start with django-mq://"):
        parse("redis://localhost")


@pytest.mark.parametrize(("url", "sentence"), WRONG)
def test_connecting_to_a_wrong_url_is_a_connection_error(url: str, sentence: str) -> None:
    with Celery("wrong", broker=url, set_as_current=False) as app, app.connection_for_write() as connection:
        with pytest.raises(OperationalError, match=sentence):
            connection.connect()
        assert not connection.connected


@pytest.mark.parametrize(("url", "sentence"), WRONG)
def test_publishing_to_a_wrong_url_is_a_connection_error(url: str, sentence: str) -> None:
    with Celery("wrong", broker=url, set_as_current=False) as app, pytest.raises(BrokerURLError, match=sentence):
        app.send_task("note")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"transport": TRANSPORT}, Address()),
        ({"transport": TRANSPORT, "virtual_host": "Other"}, Address("Other")),
        ({"hostname": "django-mq:///localhost"}, Address("localhost")),
    ],
)
def test_a_connection_that_names_the_transport_needs_no_url(given: dict[str, str], address: Address) -> None:
    assert current(Connection(**given)) == address


@pytest.mark.parametrize("url", ["django-mq://", "django-mq:///default", "django-mq:///default?queue_order=fair"])
def test_the_url_is_shown_as_it_was_given(url: str) -> None:
    assert Connection(url).as_uri() == url


@pytest.mark.parametrize(
    ("urls", "alias"),
    [
        ("django-mq:///nowhere;django-mq://", None),
        ("django-mq:///nowhere;django-mq:///postgresql", "postgresql"),
        ("redis://127.0.0.1:1/3;django-mq://", None),
    ],
)
def test_an_alternate_is_gone_on_to_and_named_by_its_own_path(urls: str, alias: str | None) -> None:
    connection = Connection(urls)

    connection.maybe_switch_next()

    assert current(connection) == Address(alias)


@pytest.mark.django_db
def test_kombu_goes_on_from_a_wrong_url_to_the_next() -> None:
    with Connection("django-mq:///nowhere;django-mq:///default") as connection:
        connection.ensure_connection(max_retries=3)

        assert connection.transport.alias == "default"
