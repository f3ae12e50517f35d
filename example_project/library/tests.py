"""The index, without a worker: ``python example_project/manage.py test library``."""

# ruff: noqa: S101 - pytest could run them, too

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import TestCase
from django_mq.api import workflow_results
from django_mq.testing import QueueTestMixin

from library.enlisting import announce_closing, enlist
from library.models import ShelfReport, SourceFile, Summary
from library.shelves import Kind, Source, broken_examples
from library.workflows import library_report

MINUTE = timedelta(minutes=1)


class Index(QueueTestMixin, TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(TemporaryDirectory()))
        (folder / "shelf.py").write_text("import os, sys  # two\n")
        self.shelf = Source("shelf.py", str(folder / "shelf.py"), Kind.MODULE)

    def test_a_file_is_parsed_by_the_task_and_its_imports_are_kept_by_the_handler(self) -> None:
        enlist([self.shelf])

        drained = self.mq.drain()

        assert [attempt.queue for attempt in drained] == ["index", "facts"]
        file = SourceFile.objects.get()
        assert (file.status, file.comments) == (SourceFile.Status.INDEXED, 1)
        assert [edge.module for edge in file.imports.all()] == ["os", "sys"]

    def test_a_broken_file_is_tried_three_times_and_dead_lettered(self) -> None:
        enlist(list(broken_examples())[:1])

        drained = self.mq.drain(ahead=MINUTE)

        assert drained.outcomes == ["retried", "retried", "dead"]
        assert SourceFile.objects.get().status == SourceFile.Status.BROKEN
        assert len(self.mq.published("index.dead")) == 1

    def test_the_summary_waits_for_the_last_file(self) -> None:
        announce_closing()
        enlist([self.shelf, *broken_examples()])

        self.mq.drain(ahead=MINUTE)

        assert Summary.objects.values_list("files", "broken").get() == (4, 3)

    def test_the_workflow_analyses_each_shelf_and_adds_up(self) -> None:
        enlist([self.shelf, *broken_examples()])
        self.mq.drain(ahead=MINUTE)

        report = library_report.start()
        self.mq.drain()

        found = workflow_results(report)["report"]
        assert (found["files"], found["largest"]) == (1, Kind.MODULE)
        assert ShelfReport.objects.values_list("kind", "files").get(kind=Kind.EXAMPLE) == (Kind.EXAMPLE, 0)
        assert ShelfReport.objects.get(kind=Kind.MODULE).most_imported == ["os", "sys"]
