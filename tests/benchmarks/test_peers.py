"""What the scripts for peers print; they need no peers installed."""

from __future__ import annotations

from tests.benchmarks import waiting
from tests.benchmarks.peers import FIGURES, HEAD, Figures, table


def figures(*values: float | None) -> Figures:
    return dict(zip(FIGURES, values, strict=True))


def test_each_median_stands_beside_its_ratio_to_the_raw_loop() -> None:
    rounds = [
        {"raw": figures(1000, 80_000, 60_000, 2.0, 4.0), "peer": figures(500, None, drain, 3.0, 6.0)}
        for drain in (6000, 90_000, 30_000)
    ]

    assert table(rounds).splitlines() == [
        *HEAD.splitlines(),
        "| raw | 1,000 | 80,000 | 60,000 | 2.0 | 4.0 |",
        "| peer | 500 (0.5) | - | 30,000 (0.5) | 3.0 (1.5) | 6.0 (1.5) |",
    ]


def test_handlers_that_wait_are_compared_with_what_their_slots_could_do() -> None:
    rates = (400.0, 900.0, 800.0)
    rounds = [{"django_mq": {"rate": rate, "kilobytes": 4.0}, "peer": {"rate": 500.0}} for rate in rates]

    assert waiting.table(rounds, 100).splitlines() == [
        "Limit: 1,000/s, 100 slots of 100 ms.",
        "",
        "| | /s | of the limit |",
        "|---|---|---|",
        "| django_mq | 800 | 0.80 |",
        "| peer | 500 | 0.50 |",
        "",
        "Memory of django_mq for each handler that waits: 4.0 KB.",
    ]
