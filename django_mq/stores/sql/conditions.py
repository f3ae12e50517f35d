"""Selectors as conditions in SQL.

The parser of the engine's selectors makes fragments of SQL here, where it makes functions elsewhere. A header may
hold a text, a number or a boolean, so that it is three expressions, each null for a value of another type: then
SQL's null is the selector's unknown. Names and values are always parameters of the statement.

Some parts are not translated: calculations with a header, comparisons of two headers, numbers of more than 53
bits, and names that are not ASCII. Databases differ there from the engine. Such a selector is asked in Python, of
the messages of a page. MariaDB reads the number in a header as a double, and SQLite does if it has more than 63
bits. Numbers beyond ``LARGEST_EXACT`` may then become equal, but stay beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine import expressions
from django_mq.engine.message import Message
from django_mq.engine.selector import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.engine.expressions import Value
    from django_mq.engine.selector import Selector

#: SQLite parses no deeper nesting of conditions than some fifty.
DEEPEST = 20
#: Larger whole numbers are rounded by some databases, none of them to this one.
LARGEST_EXACT = 2**53 - 1
UNKNOWN = "{unknown}"
#: Properties by their names in a selector: the kind of value, and the expression.
PROPERTIES = {
    **dict.fromkeys(("JMSMessageID", "AMQUserID"), ("text", "{id_text}")),
    **dict.fromkeys(("JMSPriority", "AMQPriority"), ("number", "m.priority")),
    **dict.fromkeys(("JMSTimestamp", "AMQTimestamp"), ("number", "{milliseconds:m.published_at}")),
    "JMSDeliveryTime": ("number", "{milliseconds:coalesce(m.deliver_at, m.published_at)}"),
    **dict.fromkeys(("JMSExpiration", "AMQExpiration"), ("number", "coalesce({milliseconds:m.expires_at}, 0)")),
    "JMSType": ("text", "{text_of:nullif(m.type, '')}"),
    "JMSCorrelationID": ("text", "{text_of:m.correlation_id}"),
    "AMQSize": ("number", "{size_bytes}"),
}


class NotInSQLError(Exception):
    """The selector has a part that no database evaluates as the engine does."""


class Condition(NamedTuple):
    """A condition on the message ``m``, and its parameters."""

    text: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A part of a selector: an expression for each type that its value may have, and the value of a constant."""

    text: str | None = None
    number: str | None = None
    truth: str | None = None
    constant: bool = False
    is_header: bool = False
    value: Value = None
    depth: int = 0


class SQLTerms:
    """Makes fragments of SQL for the parser; the names of their parameters begin with a prefix."""

    def __init__(self, queue: str, prefix: str) -> None:
        self.params: dict[str, Any] = {}
        self._queue, self._prefix = queue, prefix
        self._names: dict[tuple[type, Any], str] = {}

    def _name(self, value: object) -> str:
        """Return a name for a value, the same as before if the value is the same."""
        return self._names.setdefault((type(value), value), f"{self._prefix}{len(self._names)}")

    def _given(self, value: object) -> str:
        """Return the placeholder of a parameter with this value."""
        name = self._name(value)
        self.params[name] = value
        return f"%({name})s"

    def literal(self, value: Value, /) -> Term:
        if isinstance(value, bool):
            return Term(truth=str(value).upper(), constant=True, value=value)
        if isinstance(value, str):
            return Term(text=f"{{text_of:{self._given(value)}}}", constant=True, value=value)
        if value is None:
            return Term(constant=True)
        if abs(value) > LARGEST_EXACT:
            raise NotInSQLError
        return Term(number=f"{{number_of:{self._given(value)}}}", constant=True, value=value)

    def named(self, name: str, /) -> Term:
        if name in {"JMSDestination", "AMQAddress"}:
            return self.literal(self._queue)
        if name in PROPERTIES:
            kind, expression = PROPERTIES[name]
            return Term(**{kind: expression})  # type: ignore[arg-type]  # a kind is a type of value
        if name in expressions.PROPERTIES:
            return self.literal(None)
        if not name.isascii():  # MariaDB does not find it in the JSON, where it is escaped
            raise NotInSQLError
        header = self._given(name)
        kinds = {kind: f"{{header_{kind}:{header}}}" for kind in ("text", "number", "truth")}
        return Term(is_header=True, **kinds)  # type: ignore[arg-type]  # as above

    def every(self, parts: list[Term], /) -> Term:
        return self._joined(" AND ", parts)

    def some(self, parts: list[Term], /) -> Term:
        return self._joined(" OR ", parts)

    def _joined(self, sign: str, parts: list[Term]) -> Term:
        return _truth(f"({sign.join(part.truth or UNKNOWN for part in parts)})", parts)

    def negation(self, part: Term, /) -> Term:
        return _truth(f"(NOT ({part.truth or UNKNOWN}))", [part])

    def absence(self, part: Term, /) -> Term:
        kinds = [each for each in (part.text, part.number, part.truth) if each is not None]
        return _truth(f"({' AND '.join(f'({each}) IS NULL' for each in kinds) or 'TRUE'})", [part])

    def comparison(self, sign: str, left: Term, right: Term, /) -> Term:
        if left.is_header and right.is_header:
            raise NotInSQLError
        pairs = [(left.number, right.number)]
        if sign in {"=", "<>"}:
            pairs += [(left.text, right.text), (left.truth, right.truth)]
        tests = [f"({one}) {sign} ({other})" for one, other in pairs if one is not None and other is not None]
        return _truth(_first_known(tests), [left, right])

    def chain(self, first: Term, steps: list[tuple[str, Term]], /) -> Term:
        if not all(part.constant for part in (first, *(part for _, part in steps))):
            raise NotInSQLError
        known = [(sign, expressions.literal(part.value)) for sign, part in steps]
        return self.literal(expressions.chain(expressions.literal(first.value), known)(Message(id="")))

    def membership(self, part: Term, members: list[Value], /) -> Term:
        # As comparisons joined by OR: a value of another type than a member makes the rest unknown.
        found = []
        for kind, types in (("text", (str,)), ("number", (int, float)), ("truth", (bool,))):
            those = [getattr(self.literal(each), kind) for each in members if type(each) in types]
            tested = getattr(part, kind)
            if those:
                found.append(UNKNOWN if tested is None else f"({tested}) IN ({', '.join(those)})")
        return _truth(f"({' OR '.join(found)})", [part])

    def like(self, part: Term, pattern: str, escape: str, /) -> Term:
        if part.text is None:
            return _truth(UNKNOWN, [part])
        like, glob = _patterns(pattern, escape)
        name = self._name((like, glob))
        self.params |= {f"{name}_like": like, f"{name}_glob": glob}
        return _truth(f"({{alike:{part.text}}} {{pattern:{name}}})", [part])


def _truth(text: str, parts: Iterable[Term]) -> Term:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > DEEPEST:
        raise NotInSQLError
    return Term(truth=text, depth=depth)


def _first_known(tests: Sequence[str]) -> str:
    """Return the comparison whose operands have values: at most one of them does."""
    if len(tests) > 1:
        return f"coalesce({', '.join(tests)})"
    return f"({tests[0]})" if tests else UNKNOWN


def _patterns(pattern: str, escape: str) -> tuple[str, str]:
    """Return a pattern as LIKE ... ESCAPE '|' reads it, and as GLOB does."""
    like, glob = "", ""
    characters = iter(pattern)
    for character in characters:
        if character in "%_" and character != escape:
            like, glob = like + character, glob + ("*" if character == "%" else "?")
            continue
        plain = next(characters) if character == escape else character
        like += f"|{plain}" if plain in "%_|" else plain
        glob += f"[{plain}]" if plain in "*?[" else plain
    return like, glob


@lru_cache(maxsize=1024)
def condition_of(selectors: tuple[Selector, ...], queue: str, prefix: str) -> Condition | None:
    """Return the condition that the last of these selectors is the first to match; None if SQL cannot say it."""
    terms = SQLTerms(queue, prefix)
    try:
        *before, own = [parsed(selector.text, terms).truth or UNKNOWN for selector in selectors]
    except NotInSQLError:
        return None
    return Condition(" AND ".join([f"({own})", *(f"({each}) IS NOT TRUE" for each in before)]), terms.params)
