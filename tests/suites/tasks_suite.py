"""Runs Django's own tests of tasks, with our backend in the place of its dummy.

The argument is the folder that has Django's package ``tasks`` of tests. The last line is the ids of the tests that
fail, as JSON, with how many ran.
"""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any

import django

#: The queues of these tests.
QUEUES = ["default", "queue_1", "unknown_queue"]


def use_ours() -> None:
    """Let the tests find our backend where the dummy is, with the list of results that they look at."""
    from django.tasks.backends import dummy
    from django.test import SimpleTestCase

    from django_mq.integrations.tasks import MQBackend

    class OurBackend(MQBackend):
        """Ours, with what only the dummy has."""

        results: list[Any]

        def __init__(self, alias: str, params: dict[str, Any]) -> None:
            # The dummy takes any queue.
            super().__init__(alias, params | {"QUEUES": params.get("QUEUES") or QUEUES})
            self.results = []

        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            self.results.append(result)
            return result

        def clear(self) -> None:
            self.results.clear()

    dummy.DummyBackend = OurBackend
    # Tests of the dummy need no database, and may not use one.
    SimpleTestCase.databases = {"default"}


def main() -> None:
    """Run the tests, on a database of their own."""
    sys.path.insert(0, sys.argv[1])
    django.setup()
    use_ours()
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(verbosity=0, interactive=False)
    suite = runner.build_suite(["tasks.test_dummy_backend", "tasks.test_tasks", "tasks.test_custom_backend"])
    names = runner.setup_databases()
    outcome = unittest.TextTestRunner(stream=sys.stderr, verbosity=1).run(suite)
    runner.teardown_databases(names)
    failed = {case.id() for case, _ in (*outcome.failures, *outcome.errors)}
    # A part of a test, of a loop, has its values behind its name.
    sys.stdout.write(json.dumps([outcome.testsRun, sorted({name.partition(" ")[0] for name in failed})]) + "\n")


if __name__ == "__main__":
    main()
