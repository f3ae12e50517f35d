"""Random conditions: as trees, as text, and evaluated the slow and plain way."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

#: A leaf is ("literal", value) or ("name", name); any other node is (operator, part, ...).
Tree = tuple[Any, ...]

NAMES = ["a", "b", "c", "missing"]
NUMBERS = st.integers(-9, 9) | st.sampled_from([0.5, -2.5, 3.0])
SCALARS = st.one_of(NUMBERS, st.sampled_from(["", "x", "xy", "it's"]), st.booleans())
HEADERS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(NAMES[:3]), SCALARS | st.sampled_from([None, [], {}])
)
PATTERNS = st.text("xy%_", max_size=4)
BINARY = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "AND", "OR"]


def _larger(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.sampled_from(BINARY), parts, parts),
        st.tuples(st.sampled_from(["NOT", "negative", "IS NULL", "IS NOT NULL"]), parts),
        st.tuples(st.sampled_from(["BETWEEN", "NOT BETWEEN"]), parts, parts, parts),
        st.tuples(st.sampled_from(["IN", "NOT IN"]), parts, st.lists(SCALARS, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["LIKE", "NOT LIKE"]), parts, PATTERNS),
    )


LEAVES = st.tuples(st.just("literal"), SCALARS) | st.tuples(st.just("name"), st.sampled_from(NAMES))
TREES: st.SearchStrategy[Tree] = st.recursive(LEAVES, _larger, max_leaves=12)


TEMPLATES = {"NOT": "NOT {}", "negative": "-{}", "IS NULL": "{} IS NULL", "IS NOT NULL": "{} IS NOT NULL"}
TEMPLATES |= {operator: f"{{}} {operator} {{}} AND {{}}" for operator in ("BETWEEN", "NOT BETWEEN")}


def written(tree: Tree) -> str:
    """The tree as text, every part in parentheses."""
    operator, *parts = tree
    if operator in ("literal", "name"):
        return _literal(parts[0]) if operator == "literal" else str(parts[0])
    return TEMPLATES.get(operator, f"{{}} {operator} {{}}").format(*map(_part, parts))


def _part(part: object) -> str:
    if isinstance(part, list):
        return f"({', '.join(map(_literal, part))})"
    return f"({written(part)})" if isinstance(part, tuple) else _literal(part)


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper()


def evaluated(tree: Tree, headers: dict[str, Any]) -> Any:
    """What the tree is worth; None for no value."""
    operator, *parts = tree
    if operator == "literal":
        return parts[0]
    if operator == "name":
        value = headers.get(parts[0])
        return value if _kind(value) else None
    if operator.startswith(("NOT ", "IS NOT ")):
        return _opposite(evaluated((operator.replace("NOT ", ""), *parts), headers))
    if operator == "IN":
        rows = [("=", parts[0], ("literal", member)) for member in parts[1]]
        return _some([evaluated(row, headers) for row in rows])
    if operator == "LIKE":
        text = evaluated(parts[0], headers)
        return _fits(parts[1], text) if isinstance(text, str) else None
    return _applied(operator, [evaluated(part, headers) for part in parts])


def _applied(operator: str, values: list[Any]) -> Any:
    if operator in LOGIC:
        return LOGIC[operator](*values)
    return _calculated(operator, *values) if operator in "+-*/" else _compared(operator, *values)


def _between(middle: Any, low: Any, high: Any) -> bool | None:
    return _both(_compared(">=", middle, low), _compared("<=", middle, high))


def _both(left: Any, right: Any) -> bool | None:
    return _opposite(_some([_opposite(left), _opposite(right)]))


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else ""


def _opposite(value: object) -> bool | None:
    return {True: False, False: True}[value] if isinstance(value, bool) else None


def _some(values: list[Any]) -> bool | None:
    if any(value is True for value in values):
        return True
    return False if all(value is False for value in values) else None


def _compared(sign: str, left: Any, right: Any) -> bool | None:
    if _kind(left) != _kind(right) or not _kind(left):
        return None
    if sign in ("=", "<>"):
        return (left == right) is (sign == "=")
    if _kind(left) != "number":
        return None
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])


def _calculated(sign: str, left: Any, right: Any) -> Any:
    if _kind(left) != "number" or _kind(right) != "number" or (sign == "/" and right == 0):
        return None
    if sign == "/":
        return int(Fraction(left, right)) if isinstance(left, int) and isinstance(right, int) else left / right
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def _fits(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_fits(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return text != "" and pattern[0] in ("_", text[0]) and _fits(pattern[1:], text[1:])


LOGIC: dict[str, Callable[..., Any]] = {
    "NOT": _opposite,
    "negative": lambda value: _calculated("-", 0, value),
    "IS NULL": lambda value: value is None,
    "AND": _both,
    "OR": lambda *values: _some(list(values)),
    "BETWEEN": _between,
}
