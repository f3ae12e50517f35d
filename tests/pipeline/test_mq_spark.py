"""The command in a process of its own, as a site starts it."""

from __future__ import annotations

import io
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from django_mq.errors import PipelineError
from django_mq.management.spark import progress
from django_mq.pipeline import preflight
from django_mq.pipeline.session import explaining, sentence
from tests.pipeline.test_kills import Command
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.once
@pytest.mark.django_db(databases=["default"], transaction=True)
def test_the_doctor_says_that_all_works(spark: SparkSession, spark_environment: dict[str, str]) -> None:
    text = Command(spark_environment, "--master", "local[1]", "doctor").finish()

    assert "Spark 4" in text
    assert "the executors reach the database 'default': 0 rows of history" in text
    assert "log level" not in text


@pytest.mark.django_db(databases=["default"])
def test_a_command_without_java_fails_with_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(CommandError, match=r"^Spark needs Java, and there is none here"):
        call_command("mq_spark", "doctor", stdout=io.StringIO())


@pytest.mark.django_db(databases=["default"])
def test_a_command_without_spark_fails_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PACKAGES", ("a_package_that_is_not_there",))

    with pytest.raises(CommandError, match=r"pip install 'django-mq\[spark\]'"):
        call_command("mq_spark", "archive", "--root", "nowhere", stdout=io.StringIO())
    call_command("mq_spark", "export", stdout=io.StringIO())


@pytest.mark.django_db(databases=["default"])
@pytest.mark.parametrize("job", [["publish", "FILE", "--job", "key"], ["replay", "--day", "2026-03-02"]])
def test_a_queue_that_is_not_declared_is_refused_before_spark_starts(
    job: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(CommandError, match="There is no queue 'nowhere'; declare it"):
        call_command("mq_spark", *job, "--queue", "nowhere", stdout=io.StringIO())


@pytest.mark.django_db(databases=["default"])
def test_a_setting_has_a_name_and_a_value() -> None:
    with pytest.raises(CommandError, match="KEY=VALUE"):
        call_command("mq_spark", "--conf", "nothing", "doctor", stdout=io.StringIO())


WRITING = """An error occurred while calling o52.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/srv. SQLSTATE: 58030
\tat org.apache.spark.sql.execution.datasources.FileFormatWriter$.write(FileFormatWriter.scala:213)
Caused by: java.io.UncheckedIOException: closing
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: {}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 30 more
"""
PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "work.py", line 15, in work
    raise KeyError(name)
KeyError: 'name'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "work.py", line 16, in work
{}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WRITING.format("No space left on device"), "No space is left on a device: that of the archive, or"),
        (WRITING.format("Input/output error"), "Spark failed: IOException: Input/output error"),
        (PYTHON.format("ValueError: no"), "Spark failed: KeyError: 'name'"),
        (PYTHON.format("django_mq.errors.PipelineError: Our own words."), "Our own words."),
        ("[FAILED] one line\nand another", "Spark failed: [FAILED] one line"),
        ("java.lang.OutOfMemoryError: Java heap space", "Spark has too little memory"),
        ("", "Spark failed: it gave no reason"),
    ],
)
def test_a_failure_says_its_deepest_cause(text: str, said: str) -> None:
    assert sentence(text).startswith(said)


def test_a_cause_that_spark_keeps_apart_is_said(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    with pytest.raises(PipelineError, match=r"^Spark failed: .*there is only this"), explaining():
        spark.range(1).select(f.raise_error(f.lit("there is only this"))).collect()


def test_a_run_without_a_terminal_says_how_far_it_is(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.01)
    gate, out = tmp_path / "gate", io.StringIO()
    os.mkfifo(gate)

    def wait(batches: Any) -> Any:
        with gate.open(encoding="ascii"):  # opens when the test opens it for writing
            yield from batches

    def run() -> None:
        spark.range(1, numPartitions=1).mapInArrow(wait, "id bigint").collect()

    with progress.told(out, "verify") as opened, ThreadPoolExecutor(1) as pool:
        opened(spark)
        work = pool.submit(run)
        try:
            wait_until(lambda: "0 of 1 tasks" in out.getvalue(), "a line")
        finally:
            gate.open("w", encoding="ascii").close()
            work.result()

    assert re.match(r"verify: stage \d+, 0 of 1 tasks", out.getvalue())
