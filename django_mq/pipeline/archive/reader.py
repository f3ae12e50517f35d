"""The archive as a DataFrame, from the directories of the manifests, and checks that these are complete."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django_mq.errors import ArchiveDamaged, PipelineError
from django_mq.pipeline.archive import files, manifest
from django_mq.pipeline.datasets import dataset
from django_mq.pipeline.session import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from django_mq.models import ArchiveBatch

#: The signed columns of a manifest without ``signed``, which an older version wrote.
FIRST_SIGNED = ("id", "message_id", "queue", "finished_at", "outcome", "attempts")


def archived(
    spark: SparkSession, alias: str, *, since: date | None = None, until: date | None = None
) -> DataFrame:
    """Return the rows finished on the days from ``since`` to ``until``, both included, in UTC.

    The columns are those of the history with headers and body. Raises PipelineError if the
    archive has no rows of these days, and ArchiveDamaged if their files are not those of the manifest,
    or mq_spark verify found a fault in them.
    """
    wanted: list[str] = []
    for batch in manifest.readable(alias):
        found = [
            f"{batch.path}/day={day}"
            for day in sorted(batch.days)
            if (since is None or day >= since.isoformat()) and (until is None or day <= until.isoformat())
        ]
        if found and (fault := batch.fault or difference(batch)):
            raise ArchiveDamaged(
                f"{fault} Bring the files back and run mq_spark verify, or run mq_spark abandon"
                f" --batch {batch.pk}."
            )
        wanted += found
    if not wanted:
        raise PipelineError(f"The archive holds nothing from {since or 'its beginning'} to {until or 'its end'}.")
    return _parquet(spark, *wanted)


def _parquet(spark: SparkSession, *paths: str) -> DataFrame:
    """Return the rows below directories, with all columns of the history.

    A column that files of an older version do not have is null. Spark compares the checksums of the files' pages.
    """
    columns = dataset("history").chosen(None, with_body=True)
    reader = spark.read.schema(", ".join(f"{column.name} {column.type}" for column in columns))
    options = {"recursiveFileLookup": "true", "parquet.page.verify-checksum.enabled": "true"}
    with explaining():
        return reader.options(**options).parquet(*paths)


def days(alias: str) -> dict[str, int]:
    """Return the days in the archive, each with its number of rows."""
    found: Counter[str] = Counter()
    for batch in manifest.readable(alias):
        found.update({day: int(rows) for day, (rows, _) in batch.days.items()})
    return dict(sorted(found.items()))


def checked(spark: SparkSession, batch: ArchiveBatch, alias: str) -> DataFrame:
    """Return the batch's rows in the archive. Raises ArchiveDamaged unless all are there."""
    found = faults(spark, batch, alias)
    if found:
        raise ArchiveDamaged(f"{found[0]} Nothing was deleted.")
    return _parquet(spark, *files.day_directories(batch))


def verify(spark: SparkSession, alias: str) -> Iterator[tuple[ArchiveBatch, list[str]]]:
    """Yield every manifest, with a sentence for each day that differs from it."""
    for batch in manifest.readable(alias):
        yield batch, faults(spark, batch, alias)


def difference(batch: ArchiveBatch) -> str | None:
    """Return how the names and sizes of a batch's files differ from its manifest; None if they do not.

    Older manifests have no sizes: of their batches, only days without any file are found.
    """
    there = {file: size for file, size in files.sizes(batch.path).items() if files.day_of(file) in batch.days}
    if missing := batch.days.keys() - set(map(files.day_of, there)):
        return f"Batch {batch.pk}: {batch.path} has no files of {min(missing)}."
    known = there if batch.files is None else batch.files
    for file in sorted(there.keys() | known.keys()):
        size, told = there.get(file), known.get(file)
        if size != told:
            said = "it is gone" if size is None else f"it has {size} bytes"
            wanted = "does not have it" if told is None else f"says {told} bytes"
            return f"Batch {batch.pk}: the file {batch.path}/{file} is wrong: {said}, the manifest {wanted}."
    return None


def faults(spark: SparkSession, batch: ArchiveBatch, alias: str) -> list[str]:
    """Return what is wrong with a batch's files: missing or damaged ones, missing or double rows.

    The manifest keeps the first fault, so that no reader uses a batch with wrong rows. It does not keep that files
    cannot be read: a reader cannot read them either, and the reason may be another one, such as a full disk.
    """
    sizes = files.sizes(batch.path)
    try:
        quick = difference(batch)
        found = [quick] if quick else _wrong_days(spark, batch)
    except ArchiveDamaged as error:
        found = [f"Batch {batch.pk} in {batch.path} cannot be read: {error}"]
    except PipelineError as error:
        return [f"Batch {batch.pk} in {batch.path} cannot be read: {error}"]
    manifest.note(batch, alias, found[0] if found else "", sizes)
    return found


def _wrong_days(spark: SparkSession, batch: ArchiveBatch) -> list[str]:
    """Read a batch's files; return how the rows of its days differ from the manifest."""
    with explaining():
        found = fingerprints(spark, batch.signed, *files.day_directories(batch))
    return [
        f"Batch {batch.pk}: {day} has {found.get(day, ['0'])[0]} rows or other ones, its manifest says {said[0]}."
        for day, said in sorted(batch.days.items())
        if found.get(day) != said
    ]


def fingerprints(spark: SparkSession, signed: Sequence[str] | None, *paths: str) -> dict[str, list[str]]:
    """Read directories; return each day's number of rows and sum of signatures over the ``signed`` columns.

    Raises ArchiveDamaged if a row is there twice.
    """
    from pyspark.sql import functions as f

    rows = _parquet(spark, *paths)
    day = f.date_format("finished_at", "yyyy-MM-dd").alias("day")
    found = rows.groupBy(day).agg(*totals(signed), f.countDistinct("id").alias("ids")).collect()
    if any(row["ids"] != row["rows"] for row in found):
        raise ArchiveDamaged(f"{paths[0]} holds a row twice; nothing was deleted.")
    return {row["day"]: [str(row["rows"]), str(int(row["signature"] or 0))] for row in found}


def totals(signed: Sequence[str] | None) -> list[Column]:
    from pyspark.sql import functions as f

    # Spark's hash ignores nulls: without isnull, a value could change its column unnoticed.
    told = [part for name in signed for part in (f.col(name), f.isnull(name))] if signed else FIRST_SIGNED
    signature = f.xxhash64(*told).cast("decimal(20,0)")
    return [f.count("*").alias("rows"), f.sum(signature).alias("signature")]


def total(days: dict[str, list[str]]) -> tuple[int, int]:
    """Return the number of rows and the signature of all days together."""
    return manifest.count(days), sum(int(signature) for _, signature in days.values())
