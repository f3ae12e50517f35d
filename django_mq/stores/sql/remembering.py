"""Which queues have rules, so that claims from the others are not slowed down by the question."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_mq.stores.sql.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.stores.records import QueueRecord

#: How long it may take until a running worker notices that a queue was given rules, in seconds. A
#: worker that reads its queues' rows every few seconds anyway never asks for this alone.
REMEMBER_SECONDS = 6.0
#: The same for a worker that has nothing to do, which is to ask for little.
IDLE_SECONDS = 30.0


class Remembering(Runner):
    """Remember what was last read of each queue."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        #: Queue to when its row was read, and whether it has rules.
        self._rules: dict[str, tuple[float, bool]] = {}

    def _remember(self, record: QueueRecord) -> None:
        self._rules[record.name] = (time.monotonic(), record.has_rules)

    def _has_rules(self, names: Iterable[str], *, idle: bool = False) -> bool:
        """Whether one of the queues has rules, as of a few seconds ago; of more, if the worker is ``idle``."""
        return any(self._is_ruled(name, IDLE_SECONDS if idle else REMEMBER_SECONDS) for name in names)

    def _is_ruled(self, name: str, within_seconds: float = REMEMBER_SECONDS) -> bool:
        known = self._rules.get(name)
        if known is not None and time.monotonic() - known[0] < within_seconds:
            return known[1]
        try:
            record = self.queue(name)
        except BaseException:
            # As after any failed exchange of a worker: the next one opens another connection.
            if self.private and not self._in_transaction:
                self.connection.close()
            raise
        return record is not None and record.has_rules
