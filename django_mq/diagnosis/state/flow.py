"""How fast messages finish, from one look to the next: one statement over the newest history rows."""

from __future__ import annotations

import time
from typing import TypeAlias

from django.db.models import Count, Max

from django_mq.models import History

#: Finished messages a second by queue; None after the first look.
Rates: TypeAlias = dict[str, float] | None


class Flow:
    """The newest finished message of the last look, by its primary key: a look costs what is new."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._newest: int | None = None
        self._looked_at = 0.0

    def look(self) -> Rates:
        """Return the rates since the last look. A queue that keeps no history has none."""
        rows, now = History.objects.using(self._alias), time.monotonic()
        if self._newest is None:
            self._newest, self._looked_at = rows.aggregate(newest=Max("id"))["newest"] or 0, now
            return None
        # Without the model's ordering, which would become a part of GROUP BY.
        new = rows.filter(id__gt=self._newest).order_by().values("queue_name")
        found = list(new.annotate(number=Count("id"), newest=Max("id")))
        seconds = max(now - self._looked_at, 0.001)
        self._newest, self._looked_at = max([self._newest, *(row["newest"] for row in found)]), now
        return {row["queue_name"]: row["number"] / seconds for row in found}
