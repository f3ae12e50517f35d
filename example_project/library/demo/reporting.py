"""Run the workflow that reports on the index, and compare what it says with the summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_mq.api import workflow_results
from django_mq.workflows.models import WorkflowRun

from library.demo.errors import DemoFailed
from library.demo.saying import say, say_table
from library.models import ShelfReport, Summary
from library.workflows import library_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from library.demo.worker import Workers

LOOK_SECONDS = 0.05
#: Longest time for a few steps, on a machine that has much else to do.
PATIENCE_SECONDS = 120.0


def report_on_shelves(worker: Workers) -> None:
    """Start the workflow, wait for its end, and print its result. Raises DemoFailed if the result is wrong."""
    started = time.monotonic()
    id_ = library_report.start()
    run = wait_for(id_, worker)
    seconds = time.monotonic() - started
    say(f"\nThe workflow “{library_report.name}” has {run.get_state_display()} after {seconds:.1f} s.")
    if run.state != WorkflowRun.Status.SUCCEEDED:
        raise DemoFailed(f"The workflow {id_} has not succeeded: {run.reason}")
    found = workflow_results(id_)["report"]
    say_table("Shelves, a step of the workflow for each", lines_of(found))
    compare(found)


def wait_for(id_: UUID, worker: Workers) -> WorkflowRun:
    """Return the run when it has ended; a worker that dies is started again."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        run = WorkflowRun.objects.get(pk=id_)
        if run.ended_at is not None:
            return run
        if time.monotonic() > end:
            raise DemoFailed(f"The workflow {id_} has not ended. The end of the worker's log:\n{worker.log_end()}")
        worker.revive()
        time.sleep(LOOK_SECONDS)


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each shelf: its files, its lines, and what its files import most often."""
    for shelf in found["shelves"]:
        modules = ", ".join(shelf["most_imported"])
        yield f"  {shelf['kind']:<12}{shelf['files']:>8,} files{shelf['lines']:>12,} lines   imports {modules}"


def compare(found: dict[str, Any]) -> None:
    """Raise DemoFailed if the steps have not counted what the summary has."""
    summary = Summary.objects.get()
    expected = (summary.files - summary.broken, summary.lines)
    if (found["files"], found["lines"]) != expected:
        raise DemoFailed(f"The workflow has counted {found['files']} files and {found['lines']} lines.")
    if ShelfReport.objects.count() != len(found["shelves"]):
        raise DemoFailed("A step of the workflow has written its row twice, or not at all.")
