"""Goes on with an operation as a web process does: ``python -m tests.journeys.project.operate PK END STATEMENTS``.

After so many statements it is killed (``kill``), in the middle of anything, or stands still (``stop``), as soon
as no transaction of its own can have everything else stand still as well.
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

ENDS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def main(pk: int, end: str = "", statements: int = sys.maxsize) -> None:
    """Run it to its end, or to ours."""
    django.setup()
    from django.db import connection

    from django_mq.admin.operations import runner

    numbers = count(1)
    left = [end]

    def run(execute: Callable[..., Any], *arguments: Any) -> Any:
        answer = execute(*arguments)
        if next(numbers) >= statements and left and (end == "kill" or not connection.in_atomic_block):
            os.kill(os.getpid(), ENDS[left.pop()])
        return answer

    with connection.execute_wrapper(run):
        runner.run(pk, using="default")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:]))
