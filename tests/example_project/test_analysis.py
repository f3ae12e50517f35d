"""What the example finds in a source file."""

from __future__ import annotations

import pytest
from library.analysis import BROKEN, analyse, analyse_file
from library.shelves import broken_examples

SOURCE = b'''"""A module."""
import os, os.path  # two at once
from collections import abc
from . import sibling
from ..pkg import cousin


class Shelf:
    def books(self):
        return lambda: 1

    async def order(self):
        import os
'''


def test_lines_tokens_and_comments_are_counted() -> None:
    facts = analyse(b"# one\nx = 1  # two\n")

    assert (facts.lines, facts.comments) == (2, 2)
    # ENCODING, COMMENT, NL; x, =, 1, COMMENT, NEWLINE; ENDMARKER
    assert facts.tokens == 9


def test_functions_of_both_kinds_and_classes_are_counted() -> None:
    facts = analyse(SOURCE)

    assert (facts.functions, facts.classes) == (2, 1)


def test_each_imported_module_is_named_once() -> None:
    assert analyse(SOURCE).imports == (".", "..pkg", "collections", "os", "os.path")


def test_an_empty_file_is_no_broken_file() -> None:
    assert analyse(b"").lines == 0


def test_the_encoding_a_file_declares_is_used() -> None:
    assert analyse('# coding: latin-1\nname = "André"\n'.encode("latin-1")).lines == 2


@pytest.mark.parametrize("source", [b"x = (", b"\xff", b"# coding: no-such\n", b"x = 1\n  y = 2\n", b"x\0"])
def test_what_is_not_python_is_broken(source: bytes) -> None:
    with pytest.raises(BROKEN):
        analyse(source)


def test_a_file_that_is_gone_is_broken() -> None:
    with pytest.raises(BROKEN):
        analyse_file("/no/such/file.py")


def test_the_examples_are_broken_each_in_its_own_way() -> None:
    errors = {}
    for source in broken_examples():
        with pytest.raises(SyntaxError) as caught:
            analyse_file(source.location)
        errors[source.path] = str(caught.value)

    assert list(errors) == ["broken/bad_indentation.py", "broken/not_utf8.py", "broken/syntax_error.py"]
    assert "unindent" in errors["broken/bad_indentation.py"]
    assert "utf-8" in errors["broken/not_utf8.py"]
    assert "never closed" in errors["broken/syntax_error.py"]
