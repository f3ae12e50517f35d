"""Goes on with an operation as a web process does: ``python -m tests.journeys.project.operate PK [STATEMENTS]``.

Told a number of statements, it is killed right after that one, whatever it was about to do.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from collections.abc import Callable


def main(pk: int, statements: int | None) -> None:
    """Run it to its end, or to ours."""
    django.setup()
    from django.db import connection

    from django_mq.admin import background

    numbers = count(1)

    def run(execute: Callable[..., Any], *arguments: Any) -> Any:
        answer = execute(*arguments)
        if next(numbers) == statements:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    with connection.execute_wrapper(run):
        background.run(pk, using="default")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
