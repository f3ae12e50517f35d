"""Sessions cannot be renewed while the database is down, and must not be reaped for that."""

from __future__ import annotations

import pytest

from django_mq.stores.registry import shared_store
from tests.conftest import SERVED
from tests.stores.builders import DEADLINE_SECONDS, open_session, pass_time

YEAR = 365 * 86400.0


@pytest.mark.parametrize("alias", SERVED)
@pytest.mark.django_db(databases=SERVED)
def test_a_server_that_has_just_started_grants_every_session_a_deadline_of_grace(alias: str) -> None:
    store = shared_store(alias)
    session = open_session(store)
    pass_time(store, DEADLINE_SECONDS + 1)

    store.sessions.grace_seconds = YEAR
    during = store.sessions.reap()
    pass_time(store, YEAR)
    after = store.sessions.reap()

    assert (during, [reaped.session_id for reaped in after]) == ([], [session])
