"""A claim after millions of messages have passed, while an old transaction keeps their remains in the index."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.store.claiming import SMALL, Claimer, beside_small
from tests.benchmarks.store.filling import Filler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.benchmarks.measures import Measure
    from tests.benchmarks.store.environment import Environment

#: Messages published at once, and claimed at once.
PORTION, CREDIT = 20_000, 1000


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield the claim after five million messages, a transaction open for the last five minutes of them."""
    if not environment.is_large:
        return
    amount, seconds = environment.amount(5_000_000, 60_000), environment.amount(300, 1)
    filler, claimer = Filler(environment.alias, lambda _: None), Claimer(environment.alias, CREDIT)
    passed = _pass(environment, filler, claimer, 0, amount // 5, 0.0)
    with _old_transaction(environment):
        _pass(environment, filler, claimer, passed, amount, seconds)
        filler.fill(SMALL + PORTION)
        looks = [claimer.claim(full_scan=True) for _ in range(3)]
        claimer.credit = 20
        environment.say(f"a full scan takes {median(looks):.1f} ms, and one claim in a while makes one")
        yield beside_small(environment, "claim_after_churn", claimer)


def _pass(  # noqa: PLR0917 - the environment, two helpers and three numbers
    environment: Environment, filler: Filler, claimer: Claimer, passed: int, amount: int, seconds: float
) -> int:
    """Let messages pass until they are so many, and so much time has gone."""
    end = told = time.monotonic()
    end += seconds
    while passed < amount or time.monotonic() < end:
        filler.fill(PORTION)
        for _ in range(PORTION // CREDIT):
            claimer.claim()
        passed += PORTION
        if time.monotonic() > told + 10:
            told = time.monotonic()
            environment.say(f"{passed:,} of {amount:,} messages have passed")
    return passed


@contextmanager
def _old_transaction(environment: Environment) -> Iterator[None]:
    """Hold a transaction open that has seen the tables, and has a number of its own."""
    old: Any = environment.raw
    with old.connection() as driver:
        driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        driver.execute("SELECT count(*), pg_current_xact_id() FROM django_mq_queue")
        yield
        driver.execute("ROLLBACK")
