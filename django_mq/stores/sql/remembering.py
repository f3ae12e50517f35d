"""Which queues have rules, so that claims from the others are not slowed down by the question."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_mq.stores.sql.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Iterable


#: How long it may take until a running worker notices that a queue was given rules, in seconds. A
#: worker that reads its queues' rows every few seconds anyway never asks for this alone.
REMEMBER_SECONDS = 6.0
#: The same for a worker that has nothing to do, which is to ask for little.
IDLE_SECONDS = 30.0
#: Messages on the first page of a claim at most.
PAGE = 200


class Remembering(Runner):
    """Remember what was last read of each queue."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        #: Queue to when its row was read, whether it is constrained, and whether it may keep much from a session.
        self._rules: dict[str, tuple[float, bool, bool]] = {}

    def _remember(self, name: str, *, is_constrained: bool, wide: bool) -> None:
        self._rules[name] = (time.monotonic(), is_constrained, wide)

    def _page_size(self, name: str, credit: int) -> int:
        """Return how many messages to read at first: what is asked for, where little else can be in between."""
        wide = name in self._rules and self._rules[name][2]
        return PAGE if wide else max(1, min(PAGE, credit))

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
