"""What a handler says of failures is on the pages of its queue and its messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from django_mq.api import consumer
from django_mq.delivery.consumer.handlers import forget
from django_mq.models import Message
from tests.admin.conftest import page_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.django_db

READY, DEAD = Message.Status.READY, Message.Status.DEAD
TITLE = "When a handler fails"


class BankClosedError(Exception):
    """The bank is closed."""


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    yield
    forget("orders")


def handle(_: Any) -> None:
    """Do nothing."""


def say_so(attempt: int, error: BaseException) -> float:
    return attempt


RULES = {
    "max_attempts": 4,
    "backoff": "linear",
    "backoff_seconds": 30,
    "reject_on": (ValueError, KeyError),
    "release_on": BankClosedError,
    "release_seconds": 300,
    "retry_within_seconds": 3600,
}


def panel(client: Client, row: Any) -> str:
    """Return the panel of a page; blank if there is none."""
    return dict(client.get(page_of(row)).context["panels"]).get(TITLE, "")


def test_the_page_of_a_queue_says_what_its_handlers_say(browse: Client, make: Make) -> None:
    queue = make.queue(backoff_jitter=0)
    consumer("orders")(handle)
    assert panel(browse, queue) == ""

    consumer("orders", **RULES)(handle)

    shown = panel(browse, queue)
    for words in (
        "test_retries.handle</strong>",
        "At most 4 attempts. Delays: 30 s, 1 min, 1 min 30 s.",
        "No retry begins later than 1 h after the publication.",
        "A dead letter at once: ValueError, KeyError. Uncounted, after 5 min: BankClosedError.",
        "As in the code of this web process",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("rules", "values", "words"),
    [
        (
            RULES,
            {"attempts": 1},
            "Attempt 2 of 4 is next, or runs. If it fails, the next one begins after 1 min. No retry",
        ),
        (RULES, {"attempts": 3}, "Attempt 4 of 4 is next, or runs. If it fails, the message is a dead letter."),
        (
            RULES,
            {"published_at": timezone.now() - timedelta(days=1)},
            "If it fails, the message is a dead letter.",
        ),
        (
            {"max_attempts": 0, "backoff": say_so},
            {"attempts": 9},
            "Attempt 10 is next, or runs. If it fails, the next one begins when say_so says.",
        ),
        (
            {"retry_on": KeyError},
            {},
            "If it fails, the next one begins after 1 s. Retried: only KeyError.",
        ),
        (
            {"backoff_seconds": 0.2, "release_on": KeyError, "release_seconds": 0.5},
            {"attempts": 1},
            "the next one begins after 400 ms. Uncounted, after 500 ms: KeyError.",
        ),
        (RULES, {"state": DEAD}, ""),
    ],
    ids=["a later attempt", "the last one", "too late", "a function", "the queue's", "at once", "dead"],
)
def test_the_page_of_a_message_says_what_happens_next(
    browse: Client, make: Make, rules: dict[str, Any], values: dict[str, Any], words: str
) -> None:
    consumer("orders", **rules)(handle)

    shown = panel(browse, make.message(**{"state": READY} | values))

    assert words in shown
    assert bool(shown) is bool(words)


def test_a_retrying_message_has_as_many_attempts_as_its_handler_says(browse: Client, make: Make) -> None:
    consumer("orders", max_attempts=4)(handle)
    due = timezone.now() + timedelta(hours=1)

    message = make.message(Message.Status.SCHEDULED, attempts=2, deliver_at=due)

    assert "2 of 4 attempts" in browse.get(page_of(message)).content.decode()
