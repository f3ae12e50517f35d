"""What a message carries, made fit to be looked at.

Nothing here trusts a row: bytes that are not what their type says, headers that are no
JSON or no object, and nesting without end all become text, cut to a bounded length.
Nothing is unpickled, and the templates escape every word.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _

from django_mq.admin.table import alias
from django_mq.delivery.codecs import codec_of
from django_mq.diagnosis.messages import masking

if TYPE_CHECKING:
    from django_mq.models import History, Message

#: Characters of a body or of headers put on a page; a browser gets slow with more.
TEXT_LIMIT = 50_000
#: Bytes of a binary body put on a page, in hexadecimal.
HEX_LIMIT = 2048
HEX_LINE = 32


@dataclass(frozen=True, slots=True)
class Shown:
    """Text for the page: its kind, the size of the original, and what was wrong with it."""

    kind: str
    text: str
    size: int
    cut: bool = False
    problem: str = ""
    #: Whether something of it is hidden.
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers as rows of a table, or, when they are no JSON object, as they stand."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    broken: Shown | None = None


def raw(row: Message | History, name: str) -> str | None:
    """Return the stored text of a JSON column: decoding it on the way out may raise.

    A text that is not even UTF-8 cannot be fetched from SQLite; it is shown as that.
    """
    stored = type(row).objects.using(alias()).filter(pk=row.pk).values_list(Cast(name, TextField()), flat=True)
    try:
        return stored.first()
    except (DatabaseError, ValueError) as error:
        return f"\N{REPLACEMENT CHARACTER} {error}"


def headers(text: str | None, queue: str) -> Headers:
    """Return stored headers for the page, as far as they may be seen."""
    if not text:
        return Headers()
    try:
        decoded = masking.masked_headers(json.loads(text), queue)
        if isinstance(decoded, dict):
            return Headers([(sendable(name), _value(value)) for name, value in decoded.items()])
        problem = _("The headers are not a JSON object.")
    except (ValueError, RecursionError):
        problem = _("The headers are not valid JSON.")
    shown = masking.HIDDEN if masking.is_masking() else text
    return Headers(broken=_cut("text", shown, len(text), problem))


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return sendable(text[:TEXT_LIMIT])


def body(data: bytes | memoryview | str, content_type: str = "", encoding: str = "", *, queue: str) -> Shown:
    """Return a stored body for the page: pretty JSON, text, or hexadecimal bytes; as far as it may be seen.

    Without a content type the body itself decides.
    """
    # SQLite keeps whatever was written, whatever the column's type says.
    stored = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
    problem = ""
    for kind in _readings(content_type):
        try:
            value = _read(kind, stored, encoding)
            seen = masking.masked(value, queue)
            return replace(_cut(kind, _written(kind, seen), len(stored), problem), masked=seen != value)
        except (ValueError, RecursionError):
            problem = _("The body is not what its content type promises.") if content_type else ""
    seen = masking.masked(stored, queue)
    if seen != stored:
        return replace(_cut("bytes", str(seen), len(stored), problem), masked=True)
    return _hexadecimal(stored, problem)


def _readings(content_type: str) -> tuple[str, ...]:
    """Return how to read a body of this type, the most telling way first."""
    plain = content_type.partition(";")[0].strip().lower()
    if not plain or plain.endswith(("/json", "+json")):
        return ("json", "text")
    return ("text",) if plain.startswith("text/") else ()


def _read(kind: str, data: bytes, encoding: str) -> Any:
    if kind == "json":
        return json.loads(data)
    return data.decode(codec_of(encoding) or "utf_8")


def _written(kind: str, value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) if kind == "json" else str(value)


def _hexadecimal(data: bytes, problem: str) -> Shown:
    head = data[:HEX_LIMIT]
    lines = [head[start : start + HEX_LINE].hex(" ") for start in range(0, len(head), HEX_LINE)]
    return Shown("bytes", "\n".join(lines), len(data), len(data) > HEX_LIMIT, problem)


def _cut(kind: str, text: str, size: int, problem: str = "") -> Shown:
    return Shown(kind, sendable(text[:TEXT_LIMIT]), size, len(text) > TEXT_LIMIT, problem)


def sendable(text: str) -> str:
    """Spell out lone surrogates, which JSON may contain and no page can be encoded with."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
