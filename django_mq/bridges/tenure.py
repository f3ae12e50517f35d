"""Which process has a receiver, and the row that shows what the receiver does.

One process at a time has it, for as long as it renews the row: what comes in keeps its order. A second process
that thinks it has it writes nothing twice, because ids are noted.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import F, Q

from django_mq import conf
from django_mq.bridges.inbox import Taken
from django_mq.bridges.receiver_state import ReceiverState
from django_mq.engine.decisions.receivers import ReceiverCondition
from django_mq.models.times import UTCNow
from django_mq.stores.records import storable

if TYPE_CHECKING:
    from django_mq.engine.decisions.receivers import Receiver

#: So often within its time is the row renewed.
RENEWALS: Final = 5


class Tenure:
    """The time in which a process has a receiver. One thread uses it."""

    def __init__(self, receiver: Receiver, alias: str, holder: str) -> None:
        self._name, self._alias = receiver.name, alias
        self.holder = storable(holder, 255)
        self._condition, self._problem = ReceiverCondition.RECEIVES, ""
        self._has_changed = True
        self._taken, self._has_taken = Taken(), False
        self._renew_at = 0.0

    @property
    def renewal_seconds(self) -> float:
        """The time between two renewals."""
        return conf.load().SESSION_SECONDS / RENEWALS

    def show(self, condition: ReceiverCondition, problem: str = "") -> bool:
        """Show what the receiver does with the next renewal; return whether that is new."""
        if (condition, problem) == (self._condition, self._problem):
            return False
        self._has_changed = self._has_changed or condition is not self._condition
        self._condition, self._problem = condition, problem
        self._renew_at = 0.0
        return True

    def count(self, taken: Taken) -> None:
        """Count what has come, to be shown with the next renewal."""
        self._taken += taken
        self._has_taken = True

    def is_held(self) -> bool:
        """Return whether this process has the receiver; renew that if it is due. Raises Django's errors."""
        if time.monotonic() < self._renew_at:
            return True
        if self._renew():
            self._renew_at = time.monotonic() + self.renewal_seconds
            return True
        _, is_new = ReceiverState.objects.using(self._alias).get_or_create(name=self._name)
        return is_new and self._renew()

    def _renew(self) -> bool:
        mine = Q(holder=self.holder) | Q(held_until=None) | Q(held_until__lt=UTCNow())
        until = UTCNow() + timedelta(seconds=conf.load().SESSION_SECONDS)
        return self._write(mine, held_until=until)

    def end(self) -> None:
        """Let another process have it at once. Raises Django's errors."""
        self.show(ReceiverCondition.STOPPED)
        self._write(Q(holder=self.holder), held_until=None)

    def _write(self, mine: Q, **values: Any) -> bool:
        if self._has_changed:
            values["since"] = UTCNow()
        if self._has_taken:
            values["last_at"] = UTCNow()
            values |= {name: F(name) + number for name, number in self._taken._asdict().items() if number}
        rows = ReceiverState.objects.using(self._alias).filter(mine, name=self._name)
        changed = rows.update(
            holder=self.holder, state=self._condition.value, problem=storable(self._problem, 1000), **values
        )
        if changed:
            self._has_changed, self._taken, self._has_taken = False, Taken(), False
        return bool(changed)
