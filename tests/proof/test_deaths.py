"""A process dies at statements of small programs. ``tests.proof.deaths`` does so at each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proof.deaths import SETTINGS, run

if TYPE_CHECKING:
    from tests.proof.conftest import Places

#: Begins so that each database has statements of its own, and comes to those that write in all of them.
BEGINS = {"sqlite": 1, "postgresql": 14, "mariadb": 27}
STRIDE = 83


@pytest.mark.once
@pytest.mark.parametrize("kind", BEGINS)
@pytest.mark.parametrize("name", ["purchase", "async_purchase", "report", "import"])
def test_a_death_at_any_statement_ends_as_promised(places: Places, kind: str, name: str) -> None:
    with places(kind, **SETTINGS) as place:
        run(place, name, begin=BEGINS[kind], stride=STRIDE).check()
