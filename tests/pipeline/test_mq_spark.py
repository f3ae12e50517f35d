"""The command in a process of its own, as a site starts it."""

from __future__ import annotations

import io
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from django_mq.pipeline import preflight
from django_mq.pipeline.launching import launch
from django_mq.pipeline.progress import line, watched
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.once
@pytest.mark.django_db(databases=["default"], transaction=True)
def test_the_doctor_says_that_all_works(
    spark: SparkSession, spark_environment: dict[str, str], tmp_path: Path
) -> None:
    said = tmp_path / "said"
    environment = {**os.environ, **spark_environment}

    with said.open("wb") as output:
        process = launch("--master", "local[1]", "doctor", output=output, environment=environment)
        code = process.wait(timeout=800)

    text = said.read_text()
    assert code == 0, text
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
def test_a_setting_has_a_name_and_a_value() -> None:
    with pytest.raises(CommandError, match="KEY=VALUE"):
        call_command("mq_spark", "--conf", "nothing", "doctor", stdout=io.StringIO())


def test_a_job_that_is_launched_leaves_its_input_alone(tmp_path: Path) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"}
    with (tmp_path / "said").open("wb") as output:
        process = launch("--help", output=output, environment=environment)
    assert process.stdin is None
    assert process.wait(timeout=300) == 0
    assert b"doctor" in (tmp_path / "said").read_bytes()
    assert isinstance(process, subprocess.Popen)


def test_progress_is_told_while_a_stage_runs(spark: SparkSession) -> None:
    told: list[tuple[str, int, int]] = []

    def until_told() -> None:
        with watched(spark, "count", lambda *news: told.append(news)):
            wait_until(
                lambda: bool(spark.range(2 * 10**7, numPartitions=2).selectExpr("sum(hash(id))").first() and told)
            )

    until_told()

    assert told[0][0] == "count"
    assert told[0][2] >= 1
    assert line(*told[0])
