"""The demo's check finds every kind of difference, and calls equal what is equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from library.analysis import analyse
from library.demo.checking import check
from library.demo.errors import DemoFailed
from library.demo.outcomes import DeadLetter, totals_of

if TYPE_CHECKING:
    from library.demo.outcomes import Outcomes

DIRECT: Outcomes = {"good.py": analyse(b"import os\n"), "broken.py": None}


LETTER = DeadLetter("broken.py", traceback="Traceback")


def complaint(
    stored: Outcomes = DIRECT, totals: Outcomes = DIRECT, dead: tuple[DeadLetter, ...] = (LETTER,)
) -> str:
    """Return what the check says of an index that should be like DIRECT."""
    with pytest.raises(DemoFailed) as failed:
        check(stored, totals_of(totals), dead, DIRECT)
    return str(failed.value)


def test_an_index_like_the_library_is_right() -> None:
    check(DIRECT, totals_of(DIRECT), [LETTER], DIRECT)


def test_a_missing_file_is_found() -> None:
    assert "good.py is not in the index" in complaint({"broken.py": None})


def test_a_superfluous_file_is_found() -> None:
    assert "more.py is in the index and not in the library" in complaint({**DIRECT, "more.py": None})


def test_wrong_facts_are_found() -> None:
    assert "good.py is stored as" in complaint({**DIRECT, "good.py": analyse(b"import sys\n")})


def test_wrong_totals_are_found() -> None:
    assert "1 files are in the summary, and 2 in the library" in complaint(totals={"broken.py": None})


def test_a_missing_dead_letter_is_found() -> None:
    assert "broken.py is broken, and its message is no dead letter" in complaint(dead=())


def test_a_wrong_dead_letter_is_found() -> None:
    letters = (LETTER, DeadLetter("good.py", traceback="Traceback"))

    assert "good.py is not broken, and its message is a dead letter" in complaint(dead=letters)


def test_a_dead_letter_without_traceback_is_found() -> None:
    assert "no traceback" in complaint(dead=(DeadLetter("broken.py"),))


def test_many_differences_are_cut_short() -> None:
    assert "and 12 more" in complaint({f"{number}.py": None for number in range(20)} | {"good.py": None})
