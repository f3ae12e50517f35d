"""What ``manage.py check`` says of receivers, without asking a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.bridges.checks import check_bridges
from django_mq.bridges.receiver_checks import check_receivers
from django_mq.engine.decisions.receivers import message_id_of

if TYPE_CHECKING:
    from pytest_django import Settings

GIVEN: dict[str, Any] = {"bridge": "other", "source": "theirs", "queue": "orders"}
BRIDGES = {"other": {"url": "amqp://guest:s3cret@host"}}


@pytest.mark.parametrize(
    ("changed", "code", "sentence"),
    [
        ({"bridge": "ohter"}, "E018", "names the bridge 'ohter'; BRIDGES has: other"),
        ({"bridge": None}, "E018", "has None as bridge"),
        ({"queue": None}, "E018", "has no queue and no dead_letter_queue"),
        ({"queue": None, "dead_letter_queue": "orders", "direct": True}, "E018", "is direct and has no queue"),
        ({"prefetch": 0}, "E018", "has 0 as prefetch; give a number from 1 to 10000"),
        ({"prefetch": 5, "together": 6}, "E018", "writes 6 messages together, and prefetches 5"),
        ({"without_id": "guess"}, "E018", "has 'guess' as without_id"),
        ({"workers": "cron"}, "E018", "one of all, mq_worker, celery, none"),
        ({"colour": "red"}, "E018", "has 'colour'; use arguments, bridge"),
        ({"database": "nowhere"}, "E018", "the database 'nowhere', which is not in DATABASES"),
        ({"database": ":memory:"}, "E018", "in memory"),
        ({"queue": "forgetful"}, "E018", "remembers no ids"),
        ({"queue": "short"}, "W014", "prefetches 1000 messages, and its queue remembers 100 ids"),
    ],
)
def test_a_wrong_receiver_is_told_with_a_hint(
    settings: Settings, changed: dict[str, Any], code: str, sentence: str
) -> None:
    queues = {"orders": {}, "forgetful": {"dedup_count": 0}, "short": {"dedup_count": 100}}
    settings.DJANGO_MQ = {"BRIDGES": BRIDGES, "QUEUES": queues, "RECEIVERS": {"in": GIVEN | changed}}
    [found] = check_receivers()
    assert found.id == f"django_mq.{code}"
    assert sentence in found.msg
    assert found.hint


@pytest.mark.parametrize("given", [7, {"in": 7}, {"a name": GIVEN}, {"in": {"queue": "orders"}}])
def test_what_is_no_receiver_is_told(settings: Settings, given: Any) -> None:
    settings.DJANGO_MQ = {"BRIDGES": BRIDGES, "RECEIVERS": given}
    [found] = check_receivers()
    assert found.id == "django_mq.E018"


def test_a_right_receiver_passes(settings: Settings) -> None:
    settings.DJANGO_MQ = {"BRIDGES": BRIDGES, "QUEUES": {"orders": {}}, "RECEIVERS": {"in": GIVEN}}
    assert check_receivers() == []


def test_a_circle_through_the_other_broker_is_noticed(settings: Settings) -> None:
    bridges = {"other": BRIDGES["other"] | {"routing_key": "theirs"}}
    queues: dict[str, Any] = {"orders": {"bridge": "other"}}
    settings.DJANGO_MQ = {"BRIDGES": bridges, "QUEUES": queues, "RECEIVERS": {"in": GIVEN}}
    [found] = check_bridges()
    assert "circle" in found.msg
    assert "s3cret" not in found.msg


def test_the_same_id_gives_the_same_row() -> None:
    assert message_id_of("invoice 7") == message_id_of("invoice 7") != message_id_of("invoice 8")
