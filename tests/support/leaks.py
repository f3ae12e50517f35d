"""Tells where a connection to PostgreSQL was opened that the garbage collector closes.

It runs in any test that comes later, which is not at fault: the warning is shown at the end of the run, and fails
no test.
"""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from typing import Any

from psycopg import BaseConnection
from psycopg.pq import ConnStatus

#: How many callers are named.
CALLERS = 25


def tell_where_leaks_begin() -> None:
    """Note the callers of each connection, for the warning about one that is left open."""
    begin = BaseConnection.__init__

    def noting(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self.opened_in = os.environ.get("PYTEST_CURRENT_TEST", "no test"), threading.current_thread().name
        callers = traceback.walk_stack(None)
        self.opened_by = traceback.StackSummary.extract(callers, limit=CALLERS, lookup_lines=False)

    def warning(self: Any) -> None:
        is_noted = hasattr(self, "opened_by") and not hasattr(self, "_pool")
        if not is_noted or self.pgconn.status == ConnStatus.BAD:
            return
        test, thread = self.opened_in
        lines = "".join(self.opened_by.format())
        warnings.warn(
            f"A connection was deleted while still open. {test} opened it, in the thread {thread}:\n{lines}",
            ResourceWarning,
            stacklevel=2,
        )

    BaseConnection.__init__ = noting  # type: ignore[method-assign]
    BaseConnection.__del__ = warning  # type: ignore[method-assign]
