"""The results of Django's tasks, many by one statement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.stores.sql.results import TaskResults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PostgreSQLTaskResults(TaskResults):
    def write_many(self, rows: Sequence[Mapping[str, Any]]) -> None:
        # One text: in an array, the driver would escape each quote of each record by itself.
        self.rows("write_results", rows=json.dumps(list(rows), default=str))
