"""A session that was reaped although its process lives: what it takes back, and what is gone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_mq import conf

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Receipt, SessionInfo

logger = logging.getLogger("django_mq.delivery")


def revive(store: Store, session_id: int, info: SessionInfo, held: set[Receipt]) -> set[Receipt] | None:
    """Open the session again under its id; return what it holds no more, None if the id names another session.

    Raises StoreError.
    """
    kept = store.revive(session_id, info, sorted(held), deadline_seconds=conf.load().SESSION_SECONDS)
    gone = {receipt for receipt in held if kept is None or receipt[0] not in kept}
    logger.warning(
        "Session %s was reaped: its process could not renew it in time. It keeps %s of its messages; %s were"
        " given to others, or finished",
        session_id,
        len(held) - len(gone),
        len(gone),
    )
    return None if kept is None else gone
