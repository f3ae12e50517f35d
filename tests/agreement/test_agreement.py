"""A few histories on each store; ``python -m tests.agreement`` plays them by the hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agreement.history import history_of
from tests.agreement.pair import Disagreement, Pair
from tests.agreement.shrinking import shortest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: So many that the test takes a few seconds.
HISTORIES = 4


@pytest.fixture
def pair(committed_database: str) -> Iterator[Pair]:
    """The memory store and another one."""
    with Pair(committed_database) as opened:
        yield opened


def test_the_memory_store_and_a_database_agree_on_random_histories(pair: Pair) -> None:
    for number in range(HISTORIES):
        try:
            pair.play(history_of(f"suite {number}"))
        except Disagreement as found:
            least = shortest(pair, found, seconds=30)
            pytest.fail(f"{least.history}\n\n{least}", pytrace=False)
