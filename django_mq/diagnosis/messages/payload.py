"""Headers and bodies as text of a bounded length, for the page of a message.

Any bytes can be in a row: a body that does not match its type, headers that are no JSON object, endless nesting.
Nothing is unpickled. The templates escape everything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.delivery.codecs import ENCRYPTED, codec_of, key_of
from django_mq.diagnosis.messages import masking

if TYPE_CHECKING:
    from django_mq.models import History, Message

#: The most characters of a body or of a header on a page.
TEXT_LIMIT = 50_000
#: The most bytes of a binary body on a page, in hexadecimal.
HEX_LIMIT = 2048
HEX_LINE = 32
#: So many pieces of JSON are written at a time.
PIECES = 1000


@dataclass(frozen=True, slots=True)
class Shown:
    """A text, its kind, the size of the original, and what is wrong with it."""

    kind: str
    text: str
    size: int
    cut: bool = False
    problem: str = ""
    #: Whether a part is hidden.
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers as rows of a table, or as text if they are no JSON object."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    broken: Shown | None = None


def raw(row: Message | History, name: str) -> str | None:
    """Return a JSON column as text, which may be invalid; of text that is no UTF-8, return SQLite's error."""
    stored = (
        type(row)
        .objects.using(conf.load().DATABASE)
        .filter(pk=row.pk)
        .values_list(Cast(name, TextField()), flat=True)
    )
    try:
        return stored.first()
    except (DatabaseError, ValueError) as error:
        return f"\N{REPLACEMENT CHARACTER} {error}"


def headers(text: str | None, queue: str) -> Headers:
    """Return stored headers for the page, masked."""
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


def body(
    data: bytes | memoryview | str,
    content_type: str = "",
    encoding: str = "",
    *,
    queue: str,
    indent: int | None = 2,
) -> Shown:
    """Return a stored body for the page, masked: JSON, indented or in one line, text, or hexadecimal bytes.

    Without a content type, try JSON, then text.
    """
    # SQLite may have text in a binary column.
    stored = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
    if encoding in ("", ENCRYPTED) and (key_id := key_of(stored)) is not None:
        words = _("encrypted with the key %(key)s") % {"key": key_id}
        return Shown("encrypted", sendable(words), len(stored), masked=True)
    problem = ""
    for kind in _readings(content_type):
        try:
            value = _read(kind, stored, encoding)
            seen = masking.masked(value, queue)
            return replace(_cut(kind, _written(kind, seen, indent), len(stored), problem), masked=seen != value)
        except (ValueError, RecursionError):
            problem = _("The body is not what its content type promises.") if content_type else ""
    seen = masking.masked(stored, queue)
    if seen != stored:
        return replace(_cut("bytes", str(seen), len(stored), problem), masked=True)
    return _hexadecimal(stored, problem)


def text(value: str) -> Shown:
    """Return a text as it is, cut: a traceback has no keys to look for."""
    return _cut("text", value, len(value))


def _readings(content_type: str) -> tuple[str, ...]:
    plain = content_type.partition(";")[0].strip().lower()
    if not plain or plain.endswith(("/json", "+json")):
        return ("json", "text")
    return ("text",) if plain.startswith("text/") else ()


def _read(kind: str, data: bytes, encoding: str) -> Any:
    if kind == "json":
        return json.loads(data)
    return data.decode(codec_of(encoding) or "utf_8")


def _written(kind: str, value: Any, indent: int | None) -> str:
    if kind != "json":
        return str(value)
    encoder = json.JSONEncoder(indent=indent, ensure_ascii=False, default=str)
    if indent is None:
        return encoder.encode(value)
    # To indent a large value as a whole takes seconds, and the page shows its beginning only.
    text, pieces = "", encoder.iterencode(value)
    for batch in iter(lambda: "".join(islice(pieces, PIECES)), ""):
        text += batch
        if len(text) > TEXT_LIMIT:
            break
    return text


def _hexadecimal(data: bytes, problem: str) -> Shown:
    head = data[:HEX_LIMIT]
    lines = [head[start : start + HEX_LINE].hex(" ") for start in range(0, len(head), HEX_LINE)]
    return Shown("bytes", "\n".join(lines), len(data), len(data) > HEX_LIMIT, problem)


def _cut(kind: str, text: str, size: int, problem: str = "") -> Shown:
    return Shown(kind, sendable(text[:TEXT_LIMIT]), size, len(text) > TEXT_LIMIT, problem)


def sendable(text: str) -> str:
    """Return the text with escapes for lone surrogates: JSON may contain them, UTF-8 may not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
