"""The same jobs through a Spark Connect server: a client has no JVM, only DataFrames."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from django_mq.errors import SparkUnavailable
from django_mq.models import History, InsightHour, Message, Queue
from django_mq.pipeline import preflight
from tests.conftest import skip_or_fail
from tests.pipeline.conftest import finished
from tests.pipeline.test_cluster import zipped
from tests.pipeline.test_kills import Command
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environment(spark_environment: dict[str, str]) -> dict[str, str]:
    """A client whose server is one of its own, with two processors."""
    try:
        preflight.check()
        preflight.check_connect()
    except SparkUnavailable as missing:
        skip_or_fail(UnavailableError(str(missing)))
    # A server reads its options there, too: those of the package are to be tried.
    ours = {name: value for name, value in spark_environment.items() if name != "SPARK_SUBMIT_OPTS"}
    return {**ours, "SPARK_REMOTE": "local[2]"}


@pytest.mark.once
@pytest.mark.timeout(1800)
@pytest.mark.django_db(databases=["default"], transaction=True)
class TestThroughAServer:
    """One program, and one command."""

    def test_archive_figures_and_load_go_through_a_server(
        self, environment: dict[str, str], tmp_path: Path
    ) -> None:
        History.objects.bulk_create([finished(number) for number in range(1, 501)])
        Queue.objects.create(name="replayed")
        module = ("tests.pipeline.programs.whole_way",)
        arguments = ("default", str(tmp_path / "archive"), str(zipped(tmp_path)))

        printed = Command(environment, *arguments, module=module).finish()

        said = json.loads(printed.splitlines()[-1])
        assert said.pop("figures") == InsightHour.objects.count() > 0
        assert said == {
            "master": "local[2]",
            "archived": [500, 500],
            "faults": [[]],
            "published": [500, 0],
        }
        assert Message.objects.count() == 500

    def test_the_command_speaks_to_a_server(self, environment: dict[str, str]) -> None:
        del environment["SPARK_REMOTE"]

        text = Command(environment, "--remote", "local[1]", "doctor").finish()

        assert "the executors reach the database 'default': 0 rows of history" in text


@pytest.mark.django_db(databases=["default"])
def test_a_server_and_a_master_exclude_each_other() -> None:
    with pytest.raises(CommandError, match="not allowed with argument"):
        call_command("mq_spark", "--master", "local", "--remote", "sc://there", "doctor")


def test_what_a_client_lacks_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "CONNECT_PACKAGES", ("a_package_that_is_not_there",))
    monkeypatch.setenv("SPARK_REMOTE", "sc://there")

    with pytest.raises(SparkUnavailable, match=r"Spark Connect needs a_package_that_is_not_there: pip install"):
        preflight.check()


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]

    with pytest.raises(
        SparkUnavailable, match=rf"No Spark Connect server answers at 127.0.0.1:{port} \(.*refused"
    ):
        preflight.check_server(f"sc://127.0.0.1:{port}/;user_id=me")


def test_somebody_who_is_no_server_is_told_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PATIENCE_SECONDS", 1.0)
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(SparkUnavailable, match="it does not speak gRPC"),
    ):
        preflight.check_server(f"sc://127.0.0.1:{mute.getsockname()[1]}")


@pytest.mark.parametrize("address", ["there:15002", "http://there", "sc://", "sc://there:port", "sc://[there"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SparkUnavailable, match=r"is no address of a Spark Connect server; write sc://HOST"):
        preflight.check_server(address)


def test_a_server_of_our_own_needs_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SparkUnavailable, match="needs Java"):
        preflight.check()
