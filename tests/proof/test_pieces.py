"""Workers, publishers and the database die at random: each piece of work ends as promised."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conftest import skip_or_fail
from tests.proof.pieces import Pieces, settings
from tests.proof.place import new_mariadb
from tests.services.environment import SERVERS
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from tests.proof.conftest import Places

COUNT = 12


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "pool"), [("sqlite", "threads"), ("postgresql", "prefork"), ("mariadb", "prefork")]
)
def test_pieces_of_work_end_as_promised_over_deaths(places: Places, kind: str, pool: str) -> None:
    with ExitStack() as stack:
        server, url = None, None
        if kind != "sqlite":
            try:
                server = stack.enter_context(SERVERS[kind](durable=False))
            except UnavailableError as missing:
                skip_or_fail(missing)
            url = new_mariadb(server.url) if kind == "mariadb" else server.url
        place = stack.enter_context(places(kind, url=url, **settings()))
        assert Pieces(place, server, random.Random(35), COUNT, every=0.7, pool=pool).run() == []
