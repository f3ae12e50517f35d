"""Which files the example indexes, and in which order of priority."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from library.shelves import PRIORITIES, Kind, kind_of, sources


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("asyncio/__init__.py", Kind.PACKAGE),
        ("ast.py", Kind.MODULE),
        ("asyncio/locks.py", Kind.SUBMODULE),
        ("test/test_ast.py", Kind.TEST),
        ("unittest/test/__init__.py", Kind.TEST),
        ("idlelib/idle_test/mock_tk.py", Kind.TEST),
    ],
)
def test_the_kind_is_told_by_the_place(path: str, kind: Kind) -> None:
    assert kind_of(Path(path)) is kind


def test_packages_come_first_and_tests_last() -> None:
    assert max(PRIORITIES, key=PRIORITIES.__getitem__) is Kind.PACKAGE
    assert min(PRIORITIES, key=PRIORITIES.__getitem__) is Kind.TEST


def test_the_whole_library_is_found_and_nothing_installed_into_it() -> None:
    found = sources()
    paths = {source.path for source in found}

    assert {"ast.py", "json/__init__.py", "broken/syntax_error.py"} <= paths
    assert Path(json.__file__) in {Path(source.location) for source in found}
    assert len(paths) == len(found) > 500
    assert not any("site-packages" in path for path in paths)


@pytest.mark.parametrize("limit", [0, 3, 50])
def test_a_limit_spreads_over_the_library_and_keeps_the_broken_examples(limit: int) -> None:
    found = sources(limit)

    assert len({source.path for source in found}) == len(found) == max(limit, 3)
    assert sum(source.kind is Kind.EXAMPLE for source in found) == 3
