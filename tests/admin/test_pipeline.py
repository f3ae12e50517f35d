"""What the pipeline has done can be looked at, and is changed by the pipeline alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone

from django_mq.models import ArchiveBatch, BulkJob, BulkPart
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client


@pytest.fixture
def batch(site: str) -> ArchiveBatch:
    return ArchiveBatch.objects.using(site).create(
        state=ArchiveBatch.State.PURGED,
        first_id=1,
        last_id=900,
        cutoff=timezone.now(),
        root="/srv/<b>archive",
        path="/srv/<b>archive/batch=1-x",
        days={"2026-03-02": ["877", "12345"]},
        rows=877,
        planned_at=timezone.now(),
    )


@pytest.fixture
def job(site: str) -> BulkJob:
    made = BulkJob.objects.using(site).create(key="<i>load", parts=2, started_at=timezone.now())
    for part in range(2):
        BulkPart.objects.using(site).create(
            job=made, part=part, rows=1234, checksum="1", committed_at=timezone.now()
        )
    return made


def test_batches_of_the_archive_are_shown(browse: Client, batch: ArchiveBatch) -> None:
    table = browse.get(list_of("archivebatch")).content.decode()
    page = browse.get(page_of(batch)).content.decode()

    for shown in (table, page):
        assert "&lt;b&gt;archive/batch=1-x" in shown
        assert "<b>archive" not in shown
    assert "877" in table
    assert "2026-03-02" in page
    assert browse.get(list_of("archivebatch"), {"state__exact": 0}).status_code == 200


def test_loads_are_shown_with_what_their_ledgers_say(browse: Client, job: BulkJob) -> None:
    table = browse.get(list_of("bulkjob"), {"q": "load"}).content.decode()
    page = browse.get(page_of(job)).content.decode()

    assert "&lt;i&gt;load" in table
    assert "<i>load" not in table + page
    assert "2,468" in page


def test_nobody_changes_them(browse: Client, batch: ArchiveBatch, job: BulkJob) -> None:
    for row in (batch, job):
        assert browse.get(page_of(row, "delete")).status_code == 403
        assert browse.post(page_of(row), {"rows": "1"}).status_code == 403
        assert browse.get(reverse(f"admin:django_mq_{row._meta.model_name}_add")).status_code == 403


@pytest.mark.on("sqlite")
@pytest.mark.parametrize("name", ["overview", "archivebatch", "bulkjob", "insighthour", "queue", "history"])
def test_no_page_can_start_spark(
    browse: Client, batch: ArchiveBatch, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # To import it is an error now; nothing that is loaded already is of any use without it.
    for module in ("pyspark", "pyspark.sql", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    address = f"{list_of('queue')}overview/" if name == "overview" else list_of(name)

    assert browse.get(address).status_code == 200
