"""What can be counted in the text of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import grimp

from django_mq.stores.sql.database import HEADING
from tests.structure.tracing import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Kinds of files in which an option or a rule can stand. Migrations and translations repeat the models.
SUFFIXES = {".py", ".sql", ".html", ".js", ".txt"}
LEFT_OUT = {"migrations", "locale"}
DIALECTS = re.compile(r"\b(postgresql|mysql|mariadb|sqlite|sql)/sql/")

#: A rule is found by what it compares: any of these names with anything that is no constant.
RULES: Final = {
    "exhausted": re.compile(r"max_attempts|attempts?|counted_attempts"),
    "paused": re.compile(r"paused_until|paused_until__[gl]te?"),
}
#: What has one home, and by which lines another one would be seen. Former ones are among them.
HOMES: Final = {
    "a queue's record in memory": r": dict\[.*(QueueRecord|Policies|Declared \| None|\[str, bool\]).* = \{\}",
    "a pause that doubles": r"\* 2, |2\.0 \*\*.*PAUSE|multiplier \*\* |max\(2 \* ",
    "percentiles": r"def percentile\(",
    "durations as text": r"\(86400, ",
    "bounded counts as text": r"\}\+\"",
    "which hints are wanted": r"not settings\.REDIS_URL|REDIS_URL and |if settings\.REDIS_URL else",
    "rules of a claim": r"is_constrained or |or not self\.is_for_any",
    "rules of publishing": r"is_limited or bool",
    "ways back of dead letters": r"while (ways|target is not None)",
    "own expiry queue": r"name == queue\.expiry_queue|expiry_queue\.name ==|expiry_queue == name",
    "queues with free bytes": r"not credit\.is_open|\]\.is_open",
    "place of an entry": r"sorting\.place_or_first\(message",
}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
OPERAND = r"(?:[a-z_][a-z_.]*|\{\w+\}|%\(\w+\)s)"
SQL_COMPARISON = re.compile(rf"({OPERAND})\s*(?:<=|>=|<|>)(?!>)\s*({OPERAND})")


class Place(NamedTuple):
    """One line that states a rule; of dialects, the first."""

    path: str
    line: int
    text: str


def sources() -> Iterator[tuple[str, str]]:
    """Yield the path inside the package and the text of each file."""
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE)
        if path.suffix in SUFFIXES and not LEFT_OUT.intersection(inside.parts):
            yield str(inside), path.read_text()


def statement_of(path: str) -> str:
    """Return the path under which a file counts: the same subject in several dialects counts once."""
    return DIALECTS.sub("*/sql/", path)


def places(rule: str) -> list[Place]:
    """Return the places that state a rule, one for all dialects of a statement."""
    found: dict[tuple[str, str], Place] = {}
    for path, text in sources():
        find = {".py": _in_python, ".sql": _in_sql}.get(Path(path).suffix)
        for line, what in find(text, RULES[rule]) if find else ():
            within = what if path.endswith(".py") else _name_at(text, line)
            found.setdefault((statement_of(path), within), Place(path, line, what))
    return list(found.values())


def homes(subject: str) -> list[Place]:
    """Return the lines of code that state what has one home."""
    line_of = re.compile(HOMES[subject])
    return [
        Place(path, number, line.strip())
        for path, text in sources()
        if path.endswith(".py")
        for number, line in enumerate(text.splitlines(), 1)
        if line_of.search(line.partition("  #")[0])
    ]


def naming(option: str) -> list[str]:
    """Return the files that name an option, one for all dialects of a subject."""
    word = re.compile(rf"\b{option}\b")
    return sorted({statement_of(path) for path, text in sources() if word.search(text)})


def methods() -> list[tuple[int, str]]:
    """Return how many methods each class defines itself, properties included, the most first."""
    found = []
    for path, text in sources():
        for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            if isinstance(node, ast.ClassDef):
                names = {
                    each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                }
                found.append((len(names), f"{path}: {node.name}"))
    return sorted(found, key=lambda item: (-item[0], item[1]))


def circles() -> list[list[str]]:
    """Return the circles of files that import each other, those for type checking included, the largest first."""
    graph = grimp.build_graph(PACKAGE.name, exclude_type_checking_imports=False, cache_dir=None)
    found = {
        frozenset(graph.find_upstream_modules(module) & graph.find_downstream_modules(module) | {module})
        for module in graph.modules
    }
    return sorted((sorted(circle) for circle in found if len(circle) > 1), key=lambda files: (-len(files), files))


def sizes() -> dict[str, int]:
    """Return how many files and lines there are."""
    texts = dict(sources())
    python = [text for path, text in texts.items() if path.endswith(".py")]
    statements = [text for path, text in texts.items() if path.endswith(".sql")]
    return {
        "Python files": len(python),
        "lines of Python": sum(text.count("\n") for text in python),
        "SQL files": len(statements),
        "lines of SQL": sum(text.count("\n") for text in statements),
    }


def _in_python(text: str, names: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from ((node.lineno, what) for _, what in _in_sql(node.value, names))
        elif isinstance(node, ast.Compare) and any(isinstance(op, ORDERED) for op in node.ops):
            operands = [node.left, *node.comparators]
            named = [item for item in operands if names.fullmatch(_name(item))]
            others = [item for item in operands if item not in named and not isinstance(item, ast.Constant)]
            if named and (others or len(named) > 1):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.keyword) and "__" in (node.arg or "") and names.fullmatch(node.arg or ""):
            yield node.value.lineno, f"{node.arg}={ast.unparse(node.value)}"


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _name_at(text: str, line: int) -> str:
    """Return the name of the statement in which a line of a file stands."""
    headings = HEADING.findall("\n".join(text.splitlines()[:line]))
    return str(headings[-1]) if headings else ""


def _in_sql(text: str, names: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in SQL_COMPARISON.finditer(line.partition("--")[0]):
            if any(names.fullmatch(operand.rpartition(".")[2]) for operand in match.groups()):
                yield number, match.group()
