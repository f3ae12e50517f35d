"""A claim at the head of a large queue, beside the same claim from ten thousand messages.

Each claim settles what the one before has brought: what a busy worker does. The two take turns.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from django_mq import __version__
from django_mq.benchmarks.measures import QUEUE, Measure
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import ClaimRequest, SessionInfo, Settlement
from django_mq.stores.registry import private_store, shared_store
from tests.benchmarks.store.filling import READY, SCHEDULED, Filler, bring_in
from tests.benchmarks.store.schema import own_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.records import Claimed
    from tests.benchmarks.store.environment import Environment

#: What everything is compared with, and what one claim takes.
SMALL, CREDIT = 10_000, 20
#: Claims whose time does not count: they prepare statements.
WARM_UP = 10


class Claimer:
    """A session that claims and accepts."""

    def __init__(self, alias: str, credit: int = CREDIT) -> None:
        self.alias = alias
        self.store = private_store(alias)
        info = SessionInfo(name="mq_bench", kind="bench", host="", pid=0, version=__version__)
        self.id = self.store.sessions.open(info, deadline_seconds=24 * 3600)
        self.credit = credit
        self._done: list[Claimed] = []

    def claim(self, *, full_scan: bool = False) -> float:
        """Settle what was claimed before, claim more, and return the milliseconds that it took."""
        settlements = [Settlement(message.id, message.claim, Verdict.ACCEPT) for message in self._done]
        request = ClaimRequest(
            queues=(QUEUE,), credit=self.credit, slots=self.credit, promote=False, full_scan=full_scan
        )
        begin = time.perf_counter()
        self._done = self.store.claims.settle_and_claim(self.id, settlements, request).claimed
        return (time.perf_counter() - begin) * 1000

    @property
    def found(self) -> int:
        """How many messages the last claim has brought."""
        return len(self._done)

    def close(self) -> None:
        """Give back what is held, and be gone."""
        self.store.sessions.close(self.id)
        self.store.close()


@contextmanager
def small_queue(environment: Environment) -> Iterator[Claimer]:
    """Yield a session that claims from ten thousand messages, in tables of its own."""
    with own_schema(environment.site_alias, "mq_bench_small") as small:
        declare(shared_store(small), QUEUE)
        filler = Filler(small, environment.say)
        filler.fill(SMALL)
        filler.settle_down()
        claimer = Claimer(small)
        try:
            yield claimer
        finally:
            claimer.close()


def measure_ready(environment: Environment) -> Iterator[Measure]:
    """Yield the claim at the head of ten million ready messages."""
    if not environment.is_large:
        return
    filler = Filler(environment.alias, environment.say)
    filler.fill(environment.amount(10_000_000, 100_000))
    filler.settle_down()
    yield beside_small(environment, "claim_10m_ready", Claimer(environment.alias))


def measure_scheduled(environment: Environment) -> Iterator[Measure]:
    """Yield the claim from ten thousand ready ones with a million scheduled before, after and between them."""
    if not environment.is_large:
        return
    scheduled = environment.amount(1_000_000, 90_000)
    third, every = scheduled // 3, scheduled // 3 // SMALL + 1
    filler = Filler(environment.alias, environment.say)
    filler.fill(third, SCHEDULED)
    filler.fill(third + SMALL, f"CASE WHEN n %% {every} = 0 THEN {READY} ELSE {SCHEDULED} END")
    filler.fill(third, SCHEDULED)
    filler.settle_down()
    yield beside_small(environment, "claim_1m_scheduled", Claimer(environment.alias))


def beside_small(environment: Environment, name: str, large: Claimer) -> Measure:
    """Let a session's claims take turns with those of a small queue."""
    times: list[float] = []
    limits: list[float] = []
    try:
        with small_queue(environment) as small:
            for claimer in (large, small):
                bring_in(claimer.alias, SMALL)
            # They take turns at being first: the second finds the server awake.
            turns = [(small, limits), (large, times)]
            for _ in range(environment.amount(400, 100) + WARM_UP):
                turns.reverse()
                for claimer, taken in turns:
                    taken.append(claimer.claim())
                if not (small.found and large.found):
                    raise RuntimeError("A queue of the benchmark is empty.")
    finally:
        large.close()
    del times[:WARM_UP], limits[:WARM_UP]
    return Measure(name, median(times), "ms", median(limits), times)
