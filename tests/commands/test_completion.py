"""TAB completes the names of queues, by Django's own script, and never waits long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.management import ManagementUtility

from django_mq.delivery.queues import declare
from django_mq.management import completion
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    #: Returns what the shell is offered for the last of the words.
    Complete = Callable[..., list[str]]


@pytest.fixture
def complete(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Complete:
    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("DJANGO_AUTO_COMPLETE", "1")
        monkeypatch.setenv("COMP_WORDS", " ".join(["manage.py", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit) as ended:
            ManagementUtility(["manage.py", *words]).autocomplete()
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return complete


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be busy."""
    monkeypatch.setattr(completion, "PATIENCE", 60)


@pytest.fixture
def queues(committed_database: str) -> None:
    for name in ("orders", "mails", "two words", "$(touch x)"):
        declare(shared_store(committed_database), name)


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["mq_pause", "o"], ["orders"]),
        (["mq_pause", "orders", "m"], ["mails"]),
        (["mq_workers", "--queue", "o"], ["orders"]),
        (["mq_queue", "edit", "o"], ["orders"]),
        (["mq_pause", "two"], []),
        (["mq_pause", "$"], []),
        (["mq_prune", "o"], []),
        (["mq_pause", "--reas"], ["--reason="]),
    ],
)
def test_names_are_completed_where_one_is_taken(complete: Complete, words: list[str], offered: list[str]) -> None:
    assert complete(*words) == offered


@pytest.mark.usefixtures("queues")
def test_who_has_typed_nothing_is_offered_all_that_a_shell_takes(complete: Complete) -> None:
    offered = complete("mq_pause", "")

    assert {"orders", "mails"} <= set(offered)
    assert not {"two", "words", "x)"} & set(offered)


def test_nothing_is_offered_by_a_database_that_cannot_be_used(complete: Complete, settings: Settings) -> None:
    settings.DJANGO_MQ = {"DATABASE": "nowhere"}

    assert complete("mq_pause", "o") == []
    assert complete("mq_pause", "--reas") == ["--reason="]
