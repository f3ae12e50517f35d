"""Finding a message by what the lists show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from django_mq.diagnosis.messages import terms
from tests.admin.conftest import list_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

ID = UUID("01934b2e-7d1c-7abc-8def-12340a1b2c3d")
OTHER = UUID("01934b2e-7d1c-7abc-8def-12340a1b2c3e")


def found(client: Client, model: str, term: str) -> list[Any]:
    listed = client.get(f"{list_of(model)}?{urlencode({'q': term})}").context["cl"].result_list
    return [row.message_id for row in listed]


@pytest.mark.parametrize("term", ["0a1b2c3d", "…0a1b2c3d", "0A1B2C3D", "12340a1b2c3d", " 0a1b2c3d "])
def test_the_end_of_an_id_that_lists_show_finds_its_rows(term: str, site: str, browse: Client, make: Make) -> None:
    for each in (ID, OTHER):
        make.message(message_id=each)
        make.history(message_id=each)
        make.attempt(message_id=each)

    assert [found(browse, model, term) for model in ("message", "history", "attempt")] == [[ID]] * 3


def test_a_correlation_id_may_look_like_the_end_of_an_id(site: str, browse: Client, make: Make) -> None:
    make.message(message_id=ID)
    make.message(message_id=OTHER, correlation_id="0a1b2c3d")
    make.history(message_id=OTHER, correlation_id="0a1b2c3d")

    assert sorted(found(browse, "message", "0a1b2c3d")) == [ID, OTHER]
    assert found(browse, "history", "0a1b2c3d") == [OTHER]


def test_ends_of_ids_are_looked_for_among_the_newest(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "HEADER_SAMPLE", 1)
    make.message(message_id=ID)
    make.message(message_id=OTHER)

    assert found(browse, "message", ID.hex[-8:]) == []
    assert found(browse, "message", str(ID)) == [ID]
    assert found(browse, "message", OTHER.hex[-8:]) == [OTHER]
