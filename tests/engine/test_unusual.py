"""Whether a run takes unusually long."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.unusual import UsualRun, is_unusual, times_usual


@pytest.mark.parametrize(
    ("seconds", "usual", "expected"),
    [
        (1320.0, UsualRun(100, 2.0, 3.0), True),
        (59.0, UsualRun(100, 0.01, 0.02), False),
        (60.0, UsualRun(100, 0.01, 0.02), True),
        (600.0, UsualRun(100, 100.0, 130.0), False),
        (650.0, UsualRun(100, 100.0, 130.0), True),
        (1320.0, UsualRun(9, 2.0, 3.0), False),
        (1320.0, None, False),
    ],
)
def test_a_long_run_of_a_quick_type_is_unusual(seconds: float, usual: UsualRun | None, expected: bool) -> None:
    assert is_unusual(seconds, usual) is expected


def test_what_is_not_known_sorts_last() -> None:
    assert times_usual(10.0, UsualRun(10, 1.0, 2.0)) == 5.0
    assert times_usual(10.0, None) == 0.0
