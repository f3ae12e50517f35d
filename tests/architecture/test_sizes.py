"""Functions that fit in the eye."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "django_mq"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)

LONGEST_FUNCTION = 50
#: Nine functions of ten are no longer than this.
USUAL_FUNCTION = 20


def lengths() -> Iterator[tuple[int, str]]:
    """Yield the length of every function's body, its docstring not counted, and where it stands."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield _length(node), f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_no_function_is_too_long() -> None:
    assert [where for length, where in lengths() if length > LONGEST_FUNCTION] == []


def test_nine_functions_of_ten_are_short() -> None:
    found = sorted(length for length, _ in lengths())

    assert found[len(found) * 9 // 10] <= USUAL_FUNCTION
