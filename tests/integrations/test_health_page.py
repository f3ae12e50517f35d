"""The page for load balancers: it answers 200 or 503, and many requests are one question to the database."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.test import RequestFactory

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.diagnosis.state.question import MOST_THREADS, Question
from django_mq.errors import StoreUnavailable
from django_mq.integrations.health import health_page
from django_mq.stores.registry import shared_store
from tests.settings.databases import from_url
from tests.support.forking import exit_code_of_child
from tests.support.site import an_alias_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpResponseBase
    from pytest_django import DjangoDbBlocker, Settings

#: A machine that stands still is no database that does not answer.
patient_page = partial(health_page, timeout_seconds=PATIENCE_SECONDS, keep_seconds=0)


def answer(page: HttpResponseBase) -> tuple[int, dict[str, object]]:
    return page.status_code, json.loads(page.content)  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_it_demands_what_the_command_does() -> None:
    declare(shared_store("default"), "orders")
    publish("orders")
    asked = RequestFactory().get("/healthz")

    assert answer(patient_page()(asked)) == (200, {"well": True, "alerts": []})
    status, found = answer(patient_page("orders", oldest_seconds=-1, workers=True)(asked))
    assert status == 503
    assert found["well"] is False
    assert len(found["alerts"]) == 2  # type: ignore[arg-type]
    assert answer(patient_page("ordres")(asked))[0] == 503
    assert patient_page()(asked)["Cache-Control"].startswith("max-age=0")  # type: ignore[index]
    assert patient_page()(RequestFactory().post("/healthz")).status_code == 405


@pytest.fixture
def unreachable(free_port: int, settings: Settings, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """An alias with an address at which no server listens."""
    entry = from_url(f"postgresql://shop:pass-word@127.0.0.1:{free_port}/db")
    with an_alias_of(entry, settings, django_db_blocker) as alias:
        yield alias


def test_what_a_database_says_goes_into_the_log_only(unreachable: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="django_mq.health")

    status, found = answer(patient_page()(RequestFactory().get("/healthz")))

    assert status == 503
    assert found == {"well": False, "alerts": ["The queues' database cannot be read; the log says why."]}
    assert "127.0.0.1" in caplog.text
    assert "pass-word" not in caplog.text


class Gate:
    """Answers when it is opened; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, alias: str) -> int:
        self.asked.release()
        assert self.open.wait(PATIENCE_SECONDS)
        return 7

    def times(self) -> int:
        """Return how often it was asked since the last look."""
        count = 0
        while self.asked.acquire(blocking=False):
            count += 1
        return count


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_a_crowd_is_one_question(gate: Gate) -> None:
    question = Question(gate, keep_seconds=3600)
    with ThreadPoolExecutor(5) as crowd:
        asked = [crowd.submit(question.answer, "default", patience_seconds=PATIENCE_SECONDS) for _ in range(5)]
        assert gate.asked.acquire(timeout=PATIENCE_SECONDS)
        gate.open.set()
        assert [each.result() for each in asked] == [7] * 5

    assert question.answer("default", patience_seconds=PATIENCE_SECONDS) == 7
    assert gate.times() == 0


def test_patience_has_an_end_and_an_answer_that_comes_later_is_given(gate: Gate) -> None:
    question = Question(gate, keep_seconds=3600)

    with pytest.raises(StoreUnavailable, match=r"not answered within 10 ms"):
        question.answer("default", patience_seconds=0.01)
    gate.open.set()

    assert question.answer("default", patience_seconds=PATIENCE_SECONDS) == 7
    assert gate.times() == 1


def test_who_comes_to_a_question_that_hangs_is_told_at_once(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mq.diagnosis.state.question.LOST_SECONDS", float("inf"))
    question = Question(gate)
    with pytest.raises(StoreUnavailable):
        question.answer("default", patience_seconds=0.01)
    (asked,) = question._asked

    asked._since -= 1_000_000

    # With patience of its own it would wait for eleven days, as the gate is closed.
    with pytest.raises(StoreUnavailable):
        question.answer("default", patience_seconds=1_000_000)


def test_those_who_wait_for_ever_are_few(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_mq.diagnosis.state.question.LOST_SECONDS", 0)
    question = Question(gate)

    for _ in range(10):
        with pytest.raises(StoreUnavailable):
            question.answer("default", patience_seconds=0.01)

    wait_until(lambda: gate.asked._value == MOST_THREADS)
    gate.open.set()
    assert question.answer("default", patience_seconds=PATIENCE_SECONDS) == 7


def test_what_asking_raised_is_raised_to_whoever_asks() -> None:
    def fail(alias: str) -> None:
        raise StoreUnavailable(alias)

    with pytest.raises(StoreUnavailable, match="default"):
        Question(fail).answer("default", patience_seconds=PATIENCE_SECONDS)


def test_a_thread_that_a_fork_left_behind_is_waited_for_by_nobody(gate: Gate) -> None:
    question = Question(gate)
    with pytest.raises(StoreUnavailable):
        question.answer("default", patience_seconds=0.01)

    def ask() -> int:
        gate.open.set()
        return question.answer("default", patience_seconds=PATIENCE_SECONDS)

    assert exit_code_of_child(ask) == 7
