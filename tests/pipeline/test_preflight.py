"""One sentence says what is missing, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.errors import SparkUnavailable
from django_mq.pipeline import preflight

if TYPE_CHECKING:
    from pathlib import Path


def java_that_says(text: str, directory: Path, code: int = 0) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("what?", 0),
    ],
)
def test_the_version_of_java_is_read(text: str, version: int) -> None:
    assert preflight.parse_version(text) == version


def test_no_java_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SparkUnavailable, match="there is none here: install Java 17"):
        preflight.check_java()


def test_an_old_java_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java_that_says('openjdk version "11.0.2"', tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SparkUnavailable, match="java is Java 11: install Java 17"):
        preflight.check_java()


def test_a_java_that_does_not_run_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java_that_says("cannot", tmp_path, code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SparkUnavailable, match="does not run"):
        preflight.check_java()


def test_a_connect_server_needs_no_java_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")

    preflight.check()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PACKAGES", ("json", "a_package_that_is_not_there"))

    with pytest.raises(SparkUnavailable, match=r"a_package_that_is_not_there: pip install 'django-mq\[spark\]'"):
        preflight.check()
