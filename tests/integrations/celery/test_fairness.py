"""Tasks in a queue that keys share: the key is a header, or an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery import current_app

from django_mq.delivery.queues import declare
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    import pytest
    from celery import Celery

    from tests.integrations.celery.conftest import Rows

FAIR = {"fair_by": "tenant", "due_order": "keep_place"}


def test_the_key_is_the_header_or_else_the_argument(
    app: Celery, rows: Rows, committed_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(shared_store(committed_database), "reports", FAIR)

    @app.task(bind=True, name="make_report", shared=False)
    def make_report(task: object, page: int, tenant: str = "", *rest: object) -> None:
        """Nothing runs it here."""

    # As in a process with one app, which has the task.
    monkeypatch.setitem(current_app.tasks, "make_report", make_report)
    given = {"queue": "reports"}
    make_report.apply_async((1,), {"tenant": "a"}, **given)
    make_report.apply_async((1, "b"), **given)
    make_report.apply_async((1, "b"), headers={"tenant": "c"}, **given)
    make_report.apply_async((1, ["d"]), **given)
    make_report.apply_async((1, "e", 3, 4, 5), **given)
    app.send_task("unknown", ("f",), {"tenant": "f"}, **given)
    app.send_task("unknown", ("f",), **given)

    assert [row.headers.get("tenant") for row in rows()] == ["a", "b", "c", None, "e", "f", None]
