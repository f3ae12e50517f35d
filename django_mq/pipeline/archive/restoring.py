"""Rows of the archive back into the history, where the admin shows them.

Each row is in one place only: what was put back is taken out of the manifest, and a later
archive takes it along again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.errors import ArchiveBusy, PipelineError
from django_mq.pipeline import executors
from django_mq.pipeline.archive import keeping, manifest, purging
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

CHUNK = 500


def restore(spark: SparkSession, alias: str, day: date) -> int:
    """Put a day's rows back under their old ids, and return how many there were. May be repeated.

    Raises PipelineError when the archive has nothing of that day, ArchiveBusy while one is running.
    """
    if manifest.under_way(alias) is not None:
        raise ArchiveBusy(
            "A batch is being archived; finish it with mq_spark archive before anything is restored."
        )
    name = day.isoformat()
    batches = [batch for batch in manifest.readable(alias) if name in batch.days]
    if not batches:
        raise PipelineError(f"The archive holds nothing of {name}.")
    restored = 0
    for batch in batches:
        rows = purging.checked(spark, batch).where(f"date_format(finished_at, 'yyyy-MM-dd') = '{name}'")
        with explaining():
            restored += executors.counted(rows, put_back, alias)
        keeping.drop_days(batch, alias, [name])
    return restored


def put_back(batches: Iterable[pa.RecordBatch], alias: str) -> int:
    """Write rows of the archive into the history; those that are there already stay as they are."""
    from django_mq.models import History

    outcomes = {choice.name.lower(): choice.value for choice in History.Outcome}
    rows = 0
    for batch in batches:
        made = [_history(row, outcomes) for row in batch.to_pylist()]
        History.objects.using(alias).bulk_create(made, batch_size=CHUNK, ignore_conflicts=True)
        rows += len(made)
    return rows


def _history(row: dict[str, Any], outcomes: dict[str, int]) -> Any:
    from django_mq.models import History

    fields = {name: value for name, value in row.items() if name != "queue"}
    fields["queue_name"] = row["queue"]
    fields["message_id"] = UUID(row["message_id"])
    fields["outcome"] = outcomes[row["outcome"]]
    fields["headers"] = None if row["headers"] is None else json.loads(row["headers"])
    return History(**fields)
