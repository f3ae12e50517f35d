"""The arguments and the value of an encrypted task are encrypted in every table, and plain in its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet

from django_mq.delivery.codecs import key_of
from django_mq.errors import LostKey
from django_mq.models import Message, TaskResult
from django_mq.stores.registry import shared_store
from tests.integrations.tasks.test_tasks import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

KEYS = {"2026": Fernet.generate_key().decode()}


@pytest.fixture(autouse=True)
def encrypted(alias: str, settings: Settings) -> None:
    path = "django_mq.middleware.encryption.EncryptionMiddleware"
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MIDDLEWARE": [path], "ENCRYPTION_KEYS": KEYS}


def test_a_task_runs_and_its_result_is_plain_only_where_code_reads_it(
    alias: str, work: Any, run: Callable[[], None], settings: Settings
) -> None:
    result = work.add.enqueue(411141114111, two=422242224222)
    assert key_of(bytes(Message.objects.using(alias).get().body)) == "2026"
    assert find(work, result.id).args == [411141114111]

    run()

    record = TaskResult.objects.using(alias).get().record
    assert "411141114111" not in record
    assert "422242224222" not in record
    assert "833383338333" not in record
    assert work.add.module_path in record
    found = find(work, result.id)
    assert (found.status, found.return_value, found.args, found.kwargs) == (
        "SUCCESSFUL",
        833383338333,
        [411141114111],
        {"two": 422242224222},
    )
    assert work.ran == [(411141114111, 422242224222)]

    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "ENCRYPTION_KEYS": {"2027": Fernet.generate_key().decode()}}
    with pytest.raises(LostKey, match="'2026'"):
        find(work, result.id)


def test_a_task_that_is_removed_has_an_encrypted_result(alias: str, work: Any) -> None:
    result = work.add.enqueue(411141114111)

    shared_store(alias).operations.cancel([Message.objects.using(alias).get().pk])

    assert "411141114111" not in TaskResult.objects.using(alias).get().record
    found = find(work, result.id)
    assert (found.status, found.args) == ("FAILED", [411141114111])
