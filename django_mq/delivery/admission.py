"""Exclusive queues: a worker asks for them before it claims, and says so while it is refused."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_mq.errors import AccessRefused

if TYPE_CHECKING:
    from django_mq.delivery.policies import Policies
    from django_mq.delivery.session import Session

logger = logging.getLogger("django_mq.delivery")

#: Time between two requests for a queue that another worker has, in seconds.
AGAIN_SECONDS = 5.0
#: A worker that is still refused says so again after so long, in seconds.
SAY_SECONDS = 60.0


class Admission:
    """One session's requests for its exclusive queues. A claim brings nothing from one that was refused."""

    def __init__(self, session: Session, policies: Policies) -> None:
        self._session = session
        self._policies = policies
        self._admitted: set[str] = set()
        self._said: dict[str, float] = {}
        self._ask_at = 0.0

    def ask_if_due(self) -> None:
        """Ask for each exclusive queue until it is given. Raises StoreError."""
        now = time.monotonic()
        if now < self._ask_at:
            return
        self._ask_at = now + AGAIN_SECONDS
        for name in self._session.queues:
            if name not in self._admitted and self._policies.of(name).exclusive:
                self._ask(name, now)

    def _ask(self, name: str, now: float) -> None:
        try:
            self._session.subscribe(name)
        except AccessRefused as refusal:
            if now - self._said.get(name, float("-inf")) >= SAY_SECONDS:
                logger.warning("Standing by: %s", refusal)
                self._said[name] = now
        else:
            self._admitted.add(name)
