"""What the log says about an outage."""

from __future__ import annotations

import logging

import pytest

from django_mq.errors import SessionLost, StoreUnavailable, TablesMissing
from django_mq.outages import Outage

GONE = StoreUnavailable("no route")


class Part:
    """A part of the process that uses the server."""


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock) -> Outage:
    return Outage("The server", logging.getLogger("django_mq.delivery"), clock=clock)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    worker, heartbeat = Part(), Part()
    for part in (worker, heartbeat, worker, heartbeat):
        outage.failed(part, GONE)
        clock.now += 1.0
    outage.succeeded(worker)
    assert said(caplog) == ["The server cannot be used, trying again: no route"]

    clock.now += 0.5
    outage.succeeded(heartbeat)
    outage.succeeded(heartbeat)

    assert said(caplog)[1:] == ["The server works again, after 4.5 s"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_the_intervals_between_the_lines_of_an_outage_grow(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    part, times, begun = Part(), [], clock.now
    while clock.now < begun + 3600:
        before = len(caplog.records)
        outage.failed(part, GONE)
        times += [clock.now - begun] * (len(caplog.records) - before)
        clock.now += 1.0

    assert times == [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030]
    assert said(caplog)[1] == "The server cannot be used, for 10 s now, trying again: no route"


def test_a_refused_statement_is_an_error_and_is_logged_at_once(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part()
    outage.failed(part, GONE)
    for _ in range(2):
        outage.failed(part, TablesMissing("run manage.py migrate"))

    assert said(caplog)[1:] == ["The server refuses a statement, trying again: run manage.py migrate"]
    assert caplog.records[1].levelname == "ERROR"


def test_the_next_outage_is_logged_like_the_first(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    part = Part()
    for _ in range(2):
        outage.failed(part, GONE)
        outage.succeeded(part)

    assert len(said(caplog)) == 4


def test_a_part_that_ends_does_not_keep_an_outage_from_being_over(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    worker, left, forgotten = Part(), Part(), Part()
    for part in (worker, left, forgotten):
        outage.failed(part, GONE)
    outage.leave(left)
    del forgotten, part

    outage.succeeded(worker)

    assert len(said(caplog)) == 2


def test_a_lost_session_is_no_outage(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.failed(Part(), SessionLost())

    assert not said(caplog)
