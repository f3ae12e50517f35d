"""The settings: one dictionary in, one checked object out, or a sentence that names every mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from django_mq import conf
from django_mq.checks import check_settings
from django_mq.engine.options import QueueOptions
from django_mq.errors import ConfigurationError, ContradictoryOptions

if TYPE_CHECKING:
    from pytest_django import Settings


def load(settings: Settings, **given: Any) -> conf.Settings:
    """Load a project's DJANGO_MQ."""
    settings.DJANGO_MQ = given
    return conf.load()


def test_a_project_without_settings_gets_the_defaults(settings: Settings) -> None:
    del settings.DJANGO_MQ
    conf.load.cache_clear()

    # The extensions are those that django_mq adds itself.
    assert replace(conf.load(), EXTENSIONS=()) == conf.Settings()


def test_a_queues_options_start_from_the_defaults(settings: Settings) -> None:
    loaded = load(settings, QUEUES={"orders": {"levels": 3}})

    assert loaded.QUEUES["orders"] == QueueOptions(levels=3)


def test_the_loaded_settings_cannot_be_changed(settings: Settings) -> None:
    loaded = load(settings, QUEUES={"orders": {}})

    with pytest.raises(AttributeError):
        loaded.DATABASE = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        loaded.QUEUES["mails"] = QueueOptions()  # type: ignore[index]


def test_an_override_is_seen_at_once(settings: Settings) -> None:
    load(settings, AUTO_DECLARE=False)

    assert load(settings, AUTO_DECLARE=True).AUTO_DECLARE


def test_every_misspelt_name_is_named(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match=r"AUTO_DECLAER, QUEUES\['orders'\]\['level'\]"):
        load(settings, AUTO_DECLAER=True, QUEUES={"orders": {"level": 3}})


def test_every_problem_is_named_in_one_error(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match=r"POLL_SECONDS.*MAINTENANCE_SECONDS"):
        load(settings, POLL_SECONDS=-1, MAINTENANCE_SECONDS=0)


@pytest.mark.parametrize("given", [["orders"], "orders", None])
def test_settings_that_are_no_dictionary_are_refused(settings: Settings, given: Any) -> None:
    settings.DJANGO_MQ = given

    with pytest.raises(ConfigurationError, match="must be a dictionary"):
        conf.load()


@pytest.mark.parametrize("queues", [["orders"], {"orders": None}, {"orders": 3}, None])
def test_queues_that_are_no_dictionaries_are_refused(settings: Settings, queues: Any) -> None:
    with pytest.raises(ConfigurationError, match="dictionary of dictionaries"):
        load(settings, QUEUES=queues)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"DATABASE": "elsewhere"}, "names 'elsewhere', which is not in DATABASES"),
        ({"DATABASE": None}, "DATABASE is None"),
        ({"REDIS_URL": "localhost:6379"}, "REDIS_URL is not of the form redis://"),
        ({"REDIS_TIMEOUT_SECONDS": 0}, "must be positive"),
        ({"SESSION_SECONDS": 1}, "below 2 seconds"),
        ({"SESSION_SECONDS": float("nan")}, "SESSION_SECONDS is nan"),
        ({"SIDECAR_SECONDS": -1}, "SIDECAR_SECONDS is -1; it must be positive"),
        ({"SIDECAR_SECONDS": 5}, "SIDECAR_SECONDS is 5; give 0, or no less than SESSION_SECONDS"),
        ({"POLL_SECONDS": "0.5"}, "POLL_SECONDS is '0.5'; it must be of type float"),
        ({"MAX_BODY_BYTES": True}, "MAX_BODY_BYTES is True; it must be of type int"),
        ({"AUTO_DECLARE": "no"}, "AUTO_DECLARE is 'no'; it must be of type bool"),
        ({"REDIS_URL": "redis://h:abc/0"}, "REDIS_URL cannot be read"),
        ({"REDIS_URL": "redis://["}, "REDIS_URL cannot be read"),
        ({"REDIS_PREFIX": "\ud800"}, "REDIS_PREFIX is"),
        ({"SESSION_SECONDS": 1e300}, "at most 604800, a week"),
        ({"POLL_SECONDS": 10**400}, "at most 604800, a week"),
        ({"MAX_BODY_BYTES": 2**40}, "can be stored"),
        ({1: 2}, "Unknown settings in DJANGO_MQ: 1"),
        ({"QUEUES": {"orders": {"dead_letter_queue": ["dead"]}}}, "dead_letter_queue is"),
    ],
)
def test_an_impossible_setting_is_refused(settings: Settings, given: dict[str, Any], sentence: str) -> None:
    settings.DJANGO_MQ = given

    assert check_settings()
    with pytest.raises(ConfigurationError, match=sentence):
        conf.load()


def test_what_is_said_of_a_url_tells_no_password(settings: Settings) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(settings, REDIS_URL="redis://:secret/secret@h:6379/0")

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "lifo"}, "kind is 'lifo'; use one of priority, fifo"),
        ({"due_order": "whenever"}, "due_order is 'whenever'"),
        ({"levels": 0}, "levels is 0; use 1 to 10"),
        ({"levels": "3"}, "levels is '3'; it must be of type int"),
        ({"levels": None}, "levels is None"),
        ({"levels": 10**5000}, "levels is a number of thousands of digits; use 1 to 10"),
        ({"max_attempts": -1}, "max_attempts is -1; use 0 to 2147483647"),
        ({"backoff_seconds": float("inf")}, "backoff_seconds is inf"),
        ({"backoff_multiplier": 0.5}, "backoff_multiplier is 0.5; use 1 to 1000"),
        ({"backoff_jitter": 1.5}, "backoff_jitter is 1.5; use 0 to 1"),
        ({"max_messages": 0}, "max_messages is 0; use 1 to 9223372036854775807, or None"),
        ({"ttl_seconds": -5}, "ttl_seconds is -5; use 0 to 3153600000, or None"),
        ({"dead_letter_queue": "orders"}, "its dead letters would come back"),
    ],
)
def test_an_impossible_option_of_a_queue_is_refused(
    settings: Settings, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"QUEUES\['orders'\]: .*{sentence}"):
        load(settings, QUEUES={"orders": options})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"backoff_seconds": 601}, "backoff_cap_seconds is 600.0, below backoff_seconds, 601"),
        ({"overflow": "ring"}, "the queue has no limit: set max_messages or max_bytes"),
        ({"kind": "last_value"}, "needs last_value_key"),
        ({"last_value_key": "sku"}, "needs kind 'last_value'"),
        ({"ttl_seconds": 5, "max_ttl_seconds": 9}, "ttl_seconds cannot be combined"),
        ({"selectors": "a = 1\na = 1 OR"}, "selectors has 'a = 1 OR': Expected a value"),
        ({"min_ttl_seconds": 9, "max_ttl_seconds": 5}, "min_ttl_seconds is 9, above max_ttl_seconds, 5"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    settings: Settings, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ContradictoryOptions, match=rf"QUEUES\['orders'\]: .*{sentence}"):
        load(settings, QUEUES={"orders": options})


@pytest.mark.parametrize("name", ["", "q" * 201, "nu\x00ll", 7])
def test_an_impossible_name_of_a_queue_is_refused(settings: Settings, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="a text of 1 to 200 characters"):
        load(settings, QUEUES={name: {}})


def test_dead_letters_that_travel_in_a_circle_are_refused(settings: Settings) -> None:
    circle = {"a": {"dead_letter_queue": "b"}, "b": {"dead_letter_queue": "a"}}

    with pytest.raises(ConfigurationError, match=r"QUEUES\['a'\]: its dead letters would come back"):
        load(settings, QUEUES=circle)
