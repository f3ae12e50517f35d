"""The command in a process of its own, as a site starts it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from django_mq.pipeline import preflight
from tests.pipeline.test_kills import Command

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
