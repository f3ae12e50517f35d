"""When a worker process ends by itself, and when another one starts."""

from __future__ import annotations

from django_mq.engine.decisions.processes import MEGABYTE, ProcessLimits, restart_pause_seconds


def test_the_pause_grows_with_the_processes_that_ended_too_soon() -> None:
    assert [restart_pause_seconds(ends) for ends in (0, 1, 2, 3, 7, 1000)] == [0.0, 1.0, 2.0, 4.0, 60.0, 60.0]


def test_a_limit_is_named_when_it_is_reached() -> None:
    below = {"begun": 9, "age_seconds": 59.0, "memory_bytes": 300 * MEGABYTE - 1}
    for limits, fact, sentence in (
        (ProcessLimits(messages=10), {"begun": 10}, "it has begun 10 messages"),
        (ProcessLimits(seconds=60), {"age_seconds": 60.2}, "it has run for 60 s"),
        (ProcessLimits(megabytes=300), {"memory_bytes": 300 * MEGABYTE}, "it uses 300 MB of memory"),
    ):
        assert limits.reached(**below) == ""
        assert limits.reached(**below | fact) == sentence
        assert ProcessLimits().reached(**below | fact) == ""


def test_the_limits_of_the_processes_differ_by_a_tenth_at_most() -> None:
    limits = ProcessLimits(messages=1000, seconds=100.0, megabytes=300)
    spread = [limits.spread(number) for number in range(1, 9)]

    assert len({each.messages for each in spread}) == len({each.seconds for each in spread}) == 8
    assert all(900 <= (each.messages or 0) <= 1000 and each.megabytes == 300 for each in spread)
    assert ProcessLimits(messages=1).spread(5).messages == 1
