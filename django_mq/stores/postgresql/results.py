"""Results in few round trips: those of Django's tasks many by one statement, members of chords counted by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.errors import UniqueViolation

from django_mq.errors import StoreError
from django_mq.stores.connections import translating
from django_mq.stores.sql.results import TaskResults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django_mq.stores.postgresql.database import PostgreSQLDatabase
    from django_mq.stores.sql.database import Rows


class PostgreSQLTaskResults(TaskResults):
    database: PostgreSQLDatabase

    def write_many(self, rows: Sequence[Mapping[str, Any]]) -> None:
        # One text: in an array, the driver would escape each quote of each record by itself.
        self.rows("write_results", rows=json.dumps(list(rows), default=str))

    def store(self, **columns: Any) -> None:
        self._run("store_result", columns)

    def store_and_count(
        self, result: Mapping[str, Any], *, is_kept: bool, member: Mapping[str, Any], keep_until: datetime
    ) -> bool:
        more = {
            "is_kept": is_kept,
            "keep_until": keep_until,
            "position": member["position"],
            "member_result": member["result"],
            "chord_expires_at": member["expires_at"],
        }
        try:
            return bool(self._run("store_and_count", {**result, **more, "group_id": member["group_id"]}))
        except StoreError as error:
            if isinstance(getattr(error.__cause__, "__cause__", None), UniqueViolation):
                return False  # two runs of the member end together
            raise

    def _run(self, name: str, params: dict[str, Any]) -> Rows:
        """Run a statement; over a worker's connection, it is prepared."""
        if not self.database.private:
            return self.rows(name, **params)
        with translating(self.database.connection):
            return self.database.run_unseen(name, params)
