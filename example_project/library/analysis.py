"""Analyse one source file with ``ast`` and ``tokenize``, without Django and queues."""

from __future__ import annotations

import ast
import tokenize
import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a file that cannot be read as Python raises.
BROKEN = (SyntaxError, ValueError, tokenize.TokenError, OSError)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one file. ``imports`` are the distinct modules that it imports, sorted."""

    lines: int
    tokens: int
    comments: int
    functions: int
    classes: int
    imports: tuple[str, ...]


def analyse_file(location: str) -> Facts:
    """Read and analyse a file. Raise one of BROKEN."""
    return analyse(Path(location).read_bytes(), location)


def analyse(source: bytes, name: str = "<source>") -> Facts:
    """Return the facts about a source. Raise one of BROKEN."""
    nodes = list(ast.walk(parse(source, name)))
    types = [token.type for token in tokenize.tokenize(BytesIO(source).readline)]
    return Facts(
        lines=len(source.splitlines()),
        tokens=len(types),
        comments=types.count(tokenize.COMMENT),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        imports=tuple(sorted({module for node in nodes for module in modules(node)})),
    )


def parse(source: bytes, name: str) -> ast.Module:
    """Parse bytes, as Python itself does: it finds the encoding and refuses a wrong one."""
    with warnings.catch_warnings():
        # Old files hold invalid escapes by the hundred; they are not what is looked for.
        warnings.simplefilter("ignore")
        return ast.parse(source, name)


def modules(node: ast.AST) -> Iterator[str]:
    """Yield the modules an import statement names, relative ones with their dots."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or "")
