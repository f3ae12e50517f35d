"""A worker of Celery has its process record the failures of tasks, for good: also those of later tests."""

from __future__ import annotations

import sys


def record_no_more() -> None:
    """Undo ``failures.connect``. Another test's database would have rows of failures that are not its own."""
    failures = sys.modules.get("django_mq.integrations.celery.failures")
    if failures is None or not failures._kept:
        return
    while failures._kept:
        failures._kept.pop().store.close()
    signals = failures.signals
    for signal, name in (
        (signals.task_failure, "failure"),
        (signals.task_retry, "retry"),
        (signals.task_internal_error, "internal"),
        (signals.task_postrun, "rejected"),
    ):
        signal.disconnect(dispatch_uid=f"django_mq.failures.{name}")
