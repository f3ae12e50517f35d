"""The first worker process of a new version is a deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq import conf
from django_mq.errors import ConfigurationError
from django_mq.failures.deploys import last_deploy, note_version
from django_mq.models import Deploy
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from pytest_django import Settings


def test_each_version_is_noted_once(alias: str, settings: Settings) -> None:
    for version in ("1.4.1", "1.4.2", "1.4.1"):
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "VERSION": version}
        note_version(shared_store(alias), 1000)

    newest = last_deploy(using=alias)
    assert newest is not None
    assert newest.version == "1.4.2"
    assert Deploy.objects.using(alias).count() == 2


def test_without_a_version_there_are_no_deploys(alias: str) -> None:
    assert note_version(shared_store(alias), 1000) == 0
    assert last_deploy(using=alias) is None


@pytest.mark.parametrize("version", ["", "  ", "v" * 101, "a\x00b", 7])
def test_a_version_that_cannot_be_stored_is_refused(version: object, settings: Settings) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "VERSION": version}

    with pytest.raises(ConfigurationError, match="VERSION is"):
        conf.load()
