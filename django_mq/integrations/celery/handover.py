"""From claimed rows to callbacks, one by one.

A batch is claimed with one statement but handed over in small portions: with ``-P solo``
a callback runs the whole task, and between two of them the loop must see its signals and
write what was acknowledged.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from django_mq.delivery.handlers import carries_task, is_over
from django_mq.engine.verdict import ending_of, verdict
from django_mq.errors import CorruptMessage
from django_mq.integrations.celery.ahead import STALE_SECONDS
from django_mq.integrations.celery.message import payload_of
from django_mq.stores.records import Failure, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.engine.verdict import Ending, Policy
    from django_mq.integrations.celery.transport import Transport
    from django_mq.stores.records import Claimed

logger = logging.getLogger("django_mq.celery")

#: After so many seconds of callbacks the loop gets its turn.
PORTION_SECONDS = 0.02


class Handover:
    """What one transport has claimed and not yet given to a callback, in order."""

    def __init__(self, transport: Transport, *, redis_order: bool) -> None:
        self._transport = transport
        self._redis_order = redis_order
        self._waiting: deque[Claimed] = deque()
        # When anything was last handed over, or came while nothing was waiting.
        self._moved_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claimed: Iterable[Claimed]) -> None:
        """Let freshly claimed messages wait for their callbacks."""
        if not self._waiting:
            self._moved_at = time.monotonic()
        self._waiting.extend(claimed)

    @property
    def ready(self) -> bool:
        """Whether the lease is certain, and the next message's channel has credit for it."""
        try:
            if self._waiting and not self._transport.intake.session.certainty.holds:
                return False  # the heartbeat confirms the lease, and then wakes the loop
            return self._transport.has_credit(self._waiting[0].queue_name)
        except IndexError:  # the keeper, or a signal's handler, gives back at any moment
            return False

    def queues(self) -> set[str]:
        """Return the queues that anything waiting came from."""
        return {claimed.queue_name for claimed in tuple(self._waiting)}

    def portion(self, seconds: float = PORTION_SECONDS) -> int:
        """Hand over what is waiting, within the credit and for a moment; return how many."""
        until = time.monotonic() + seconds
        count = 0
        while self.ready and not told_to_stop():
            self._moved_at = time.monotonic()
            count += self.one()
            if time.monotonic() >= until:
                break
        return count

    def one(self) -> bool:
        """Hand over the next message that can be; False if there is none."""
        while True:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # perhaps because a signal's handler has just given everything back
                return False
            if self._hand_over(claimed):
                return True

    def _hand_over(self, claimed: Claimed) -> bool:
        if self.ends(claimed):
            return False
        native = self._transport.native.get(claimed.queue_name)
        if native is not None and not carries_task(claimed):
            native.take(claimed)
            return True
        callback = self._transport.callback(claimed.queue_name) if native is None else native.take_task
        if callback is None:
            self._transport.intake.session.release(claimed)  # cancelled while the database answered
        else:
            payload = self.payload(claimed)
            if payload is not None:
                callback(payload)
                return True
        return False

    def ends(self, claimed: Claimed) -> bool:
        """Settle the message if it has expired and is not to be handled; return whether it has."""
        if not is_over(claimed):
            return False
        self._transport.intake.session.expire(claimed)
        return True

    def payload(self, claimed: Claimed) -> dict[str, Any] | None:
        """Return the Kombu message, or dead-letter a row that is none."""
        priority = 9 - claimed.priority if self._redis_order else claimed.priority
        try:
            return payload_of(claimed, self._transport.intake.session, priority=priority)
        except CorruptMessage as error:
            # It must neither loop nor stop the others.
            logger.error("Message %s of queue %r is corrupt: %r", claimed.message_id, claimed.queue_name, error)  # noqa: TRY400 - the trace is our own
            policy = self._transport.declarations.remembered(claimed.queue_name)
            dead = judged(claimed, ending_of(error), policy, f"corrupt: {error}", Failure.of(error))
            self._transport.intake.session.settle(dead)
            return None

    def release(self, queue: str | None = None) -> None:
        """Give back, uncounted, what is waiting for a queue's callback, or for any."""
        others = []
        while self._waiting:
            try:
                claimed = self._waiting.popleft()
            except IndexError:  # the keeper has just given it back
                break
            if queue in (None, claimed.queue_name):
                self._transport.intake.session.release(claimed)
            else:
                others.append(claimed)
        self._waiting.extend(others)

    def stale_seconds(self) -> float | None:
        """Return when what is waiting goes back, None if nothing is or it need not."""
        if len(self._waiting) <= self._transport.credit_now():
            return None
        return max(0.0, self._moved_at + STALE_SECONDS - time.monotonic())

    def give_back_stale(self) -> None:
        """Give back what waits beyond the credit, where nothing moves: a slow task is in front.

        Called by the keeper too, for a loop that is blocked by that task.
        """
        if self.stale_seconds() != 0.0:
            return
        for _ in range(len(self._waiting) - self._transport.credit_now()):
            try:
                self._transport.intake.session.release(self._waiting.pop())
            except IndexError:  # the task has just ended
                return


def told_to_stop() -> bool:
    """Whether this worker has received a signal that its loop will heed at its next turn."""
    state = sys.modules.get("celery.worker.state")
    wishes = () if state is None else (state.should_stop, state.should_terminate)
    return any(wish is not None and wish is not False for wish in wishes)


def judged(
    claimed: Claimed,
    ending: Ending,
    policy: Policy,
    reason: str = "",
    failure: Failure | None = None,
    *,
    delay_seconds: float | None = None,
) -> Settlement:
    """Return the settlement of a delivery that ended here; ``reason`` is for a dead message."""
    decision = verdict(ending, claimed.attempts + 1, policy, delay_seconds)
    return Settlement.of(claimed, decision, reason, failure)
