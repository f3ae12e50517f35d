"""The page of extensions has every field of the values, with its default."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from django_mq.engine.decisions.ends import End
from django_mq.seams.extension import Duty, Extension, Listening, Panel, SearchKeys
from tests.docs.pages import DOCS, rows

PAGE = DOCS / "reference" / "extensions.md"


def names(heading: str) -> list[str]:
    return [name.strip("` ") for cell in rows(PAGE, heading) for name in cell.split(",")]


@pytest.mark.parametrize("kind", [Extension, Duty, Panel, Listening, SearchKeys])
def test_the_page_has_every_field(kind: type) -> None:
    assert sorted(names(kind.__name__)) == sorted(field.name for field in fields(kind))


def test_the_page_has_every_end() -> None:
    assert set(names("Ends")) == {end.name for end in End}


def test_the_page_has_the_defaults_of_a_duty() -> None:
    documented = {name: cells[0].strip("`") for name, cells in rows(PAGE, "Duty").items()}

    assert documented == {
        field.name: "required" if field.default is MISSING else repr(field.default) for field in fields(Duty)
    }
