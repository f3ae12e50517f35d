"""What a database says about itself, for the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.sql.database import Part
from django_mq.stores.subjects.database import Server

if TYPE_CHECKING:
    from collections.abc import Set


class DatabaseServer(Part, Server):
    def shape(self) -> Set[tuple[str, str]]:
        return {(table, name) for table, name in self.rows("shape")}
