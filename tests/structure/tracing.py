"""Which functions and lines of the package run, in every thread of this process."""

from __future__ import annotations

import ast
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

PACKAGE = Path(__file__).parents[2] / "django_mq"
#: Code objects with this flag are functions; bodies of modules and classes have it not.
CO_OPTIMIZED = 0x01
#: Where the frames are of what runs beside a message: Python's import of a module, and maintenance.
BESIDE = {"<frozen importlib._bootstrap>", str(PACKAGE / "delivery" / "consumer" / "maintenance.py")}


@contextmanager
def functions_entered() -> Iterator[list[tuple[str, str]]]:
    """Yield the functions that are called, in the order of their first calls: file inside the package, and name.

    What is called while a module is imported, or by maintenance, does not count.
    """
    entered: list[tuple[str, str]] = []
    unseen: dict[CodeType, bool] = {}

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        wanted = unseen.get(code)
        if wanted is None:
            wanted = unseen[code] = bool(code.co_flags & CO_OPTIMIZED) and is_ours(code.co_filename)
        if wanted and not _is_beside(frame):
            unseen[code] = False
            entered.append((inside(code.co_filename), code.co_qualname))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def lines_run(folder: str) -> Iterator[dict[str, set[int]]]:
    """Yield the numbers of the lines that run, by file, of one folder of the package."""
    run: dict[str, set[int]] = {}
    under = str(PACKAGE / folder)

    def local(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            run.setdefault(inside(frame.f_code.co_filename), set()).add(frame.f_lineno)
        return local

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        return local if code.co_filename.startswith(under) and code.co_flags & CO_OPTIMIZED else None

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield run
    finally:
        sys.settrace(None)
        threading.settrace(None)


def function_lines(path: Path, names: str = "") -> set[int]:
    """Return the lines inside the functions of a file that can run.

    A line with ``def`` is not one of them, nor is a method that says only what others do. With ``names``,
    separated by spaces, only those of these functions and classes.
    """
    lines: set[int] = set()
    wanted = set(names.split())
    text = path.read_text()
    empty = {line for node in ast.walk(ast.parse(text)) for line in _lines_without_code(node)}
    waiting = [compile(text, str(path), "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [part for part in code.co_consts if hasattr(part, "co_lines")]
        if code.co_flags & CO_OPTIMIZED and (not wanted or code.co_qualname.partition(".")[0] in wanted):
            own = {line for *_, line in code.co_lines() if line is not None}
            lines |= own - {code.co_firstlineno} or own
    return lines - empty


def _lines_without_code(node: ast.AST) -> range:
    """Return the lines of a function whose body is a docstring or an ellipsis, decorators included."""
    match node:
        case ast.FunctionDef(body=[ast.Expr(value=ast.Constant())]):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return range(first, (node.end_lineno or node.lineno) + 1)
    return range(0)


def is_ours(path: str) -> bool:
    """Whether a file belongs to the package."""
    return path.startswith(str(PACKAGE))


def inside(path: str) -> str:
    """Return the path inside the package."""
    return str(Path(path).relative_to(PACKAGE))


def _is_beside(frame: FrameType | None) -> bool:
    """Whether a module is being imported, or maintenance runs."""
    while frame is not None:
        if frame.f_code.co_filename in BESIDE:
            return True
        frame = frame.f_back
    return False
