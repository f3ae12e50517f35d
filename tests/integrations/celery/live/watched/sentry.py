"""Sentry with its integration for Celery; what it would send goes into the diary."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tests.journeys.project import diary


def start() -> None:
    """Begin, as a project's settings do."""
    sdk: Any = import_module("sentry_sdk")
    celery: Any = import_module("sentry_sdk.integrations.celery")
    sdk.init(
        dsn="http://key@127.0.0.1/1",
        integrations=[celery.CeleryIntegration()],
        auto_enabling_integrations=False,
        traces_sample_rate=1.0,
        before_send=_note_error,
        before_send_transaction=_note_transaction,
    )


def _note_error(event: Any, hint: Any) -> None:
    """Note an error; nothing is sent."""
    (error,) = event["exception"]["values"]
    innermost = error["stacktrace"]["frames"][-1]["function"]
    by = error["mechanism"]["type"]
    diary.write(sentry="error", by=by, type=error["type"], value=error["value"], at_function=innermost)


def _note_transaction(event: Any, hint: Any) -> None:
    """Note a transaction; nothing is sent."""
    trace = event["contexts"]["trace"]
    diary.write(sentry="transaction", name=event["transaction"], status=trace["status"], trace=trace["trace_id"])
