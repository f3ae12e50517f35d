"""A session's sidecar: it lives as long as the session, and belongs to its process alone."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil
import pytest
from django.db import connections

from django_mq.delivery.consumer.session import Session
from django_mq.delivery.consumer.sidecar import MODULE
from django_mq.delivery.queues import declare
from django_mq.errors import ConfigurationError
from django_mq.models import WorkerSession
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import shared_store
from tests.services.processes import wait_until_gone
from tests.support.forking import exit_code_of_child
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

pytestmark = pytest.mark.django_db(databases=["default"], transaction=True)


@pytest.fixture(autouse=True)
def with_sidecar(settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "SESSION_SECONDS": 2, "SIDECAR_SECONDS": 60}
    declare(shared_store("default"), "orders")


@contextmanager
def an_open_session() -> Iterator[Session]:
    wake = Wake()
    session = Session("default", kind="native", wake=wake)
    try:
        session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1))
        yield session
    finally:
        session.close()
        wake.close()


def sidecars() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended since, or is not reaped yet
            if MODULE in child.cmdline():
                found.append(child)
    return found


def test_a_sidecar_ends_with_its_session_and_has_no_password_among_its_arguments() -> None:
    with an_open_session():
        [sidecar] = wait_until(sidecars)
        assert sidecar.cmdline()[1:] == ["-P", "-m", MODULE]

    wait_until_gone([sidecar])


def test_a_sidecar_that_was_killed_is_started_again() -> None:
    with an_open_session():
        [first] = wait_until(sidecars)
        first.kill()

        [second] = wait_until(lambda: [sidecar for sidecar in sidecars() if sidecar.pid != first.pid])

        assert second.is_running()


def test_a_forked_child_keeps_no_sidecar_of_its_parent_alive() -> None:
    with an_open_session() as session:
        assert session.heartbeat is not None
        assert session.heartbeat._sidecar is not None
        process = session.heartbeat._sidecar._process
        assert process is not None
        assert process.stdin is not None
        pipe = process.stdin.fileno()

        def has_the_pipe() -> int:
            try:
                os.fstat(pipe)
            except OSError:
                return 0
            return 1

        assert exit_code_of_child(has_the_pipe) == 0
        assert process.poll() is None


def test_database_settings_that_cannot_be_given_to_another_process_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", {**options, "factory": object()})

    with pytest.raises(ConfigurationError, match="SIDECAR_SECONDS"), an_open_session():
        pass

    assert not WorkerSession.objects.exists()
