"""Pages, commands and findings write numbers, durations, sizes and times by ``django_mq/formats.py`` alone."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils.translation import override

import django_mq
from django_mq.diagnosis.language import LOCAL
from django_mq.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(django_mq.__file__).parent
#: Folders whose texts people read, in the admin or on a terminal.
FOLDERS = (
    *(
        "acts",
        "admin",
        "alerts",
        "diagnosis",
        "failures",
        "limits",
        "management",
        "periodic",
        "replies",
        "rollups",
    ),
    *("search", "templatetags", "tiles", "unique"),
)
#: Filters of Django that write them in a second way. A date for a machine, ``date:"c"``, is none.
FILTERS = re.compile(
    r"\|\s*(floatformat|filesizeformat|timesince|timeuntil|intcomma|intword|naturaltime|naturalday|stringformat:(?!\"[sd]\")"
    r"|time\b|date:(?!\"c\"))"
)
#: The same for code.
FUNCTIONS = {
    *(
        "floatformat",
        "filesizeformat",
        "timesince",
        "timeuntil",
        "naturaltime",
        "intcomma",
        "strftime",
        "strptime",
    ),
    *("date_format", "time_format", "number_format", "get_format"),
}
#: A format of a number or a time: ``,``  ``.1f``  ``%H:%M``; not a width.
SPECIFICATION = re.compile(r"[,_]|\.\d+[fgeF%]?|[fgeF%]$|%[YymdHMSjb]")
#: The same in a text: ``%.1f`` and ``{:,}``.
TEXT = re.compile(r"%[-+ 0]*\d*\.\d+[fge]|\{\w*:[^{}]*[,fge%]\}")
#: What is for a machine, each with its reason.
EXCEPT = {
    "admin/overview/charts.py": "places in a drawing",
    "admin/messages/downloads.py": "the name of a file",
    "admin/forms.py": "the value of a field",
    "diagnosis/language.py": "the formats themselves",
}
#: Values that a command line takes.
MACHINE = {"admin/failures/actions.py: :g"}


def found_in_code(source: str) -> Iterator[str]:
    """Yield what is written in a way of its own."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FormattedValue(format_spec=ast.JoinedStr(values=[*parts])):
                form = "".join(
                    ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else part.value
                    for part in parts
                )
                if SPECIFICATION.search(form) or form.isupper():
                    yield f":{form}"
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name in FUNCTIONS:
                yield name
            case ast.Constant(value=str(text)) if match := TEXT.search(text):
                yield match[0]


def test_what_is_written_in_a_way_of_its_own_is_found() -> None:
    code = {
        'f"{seconds:.1f} s"': [":.1f"],
        'f"{count:,} rows"': [":,"],
        'f"{moment:%H:%M}"': [":%H:%M"],
        'f"{moment:{TIME}}"': [":TIME"],
        '"%.0f s" % seconds': ["%.0f"],
        '"{:,}".format(count)': ["{:,}"],
        "moment.strftime(form)": ["strftime"],
        'f"{name:>10} {PLAIN.number(count)}"': [],
        '_("%(count)s of %(most)s") % words': [],
    }
    templates = {'{{ n|floatformat:"0g" }}': True, '{{ t|date:"c" }}': False, "{{ n|number }}": False}

    assert {source: [*found_in_code(source)] for source in code} == code
    assert {source: FILTERS.search(source) is not None for source in templates} == templates


def test_code_calls_the_formats() -> None:
    found = {
        f"{name}: {what}"
        for folder in FOLDERS
        for path in (PACKAGE / folder).rglob("*.py")
        if (name := str(path.relative_to(PACKAGE))) not in EXCEPT
        for what in found_in_code(path.read_text())
    }

    assert sorted(found - MACHINE) == []


def test_templates_call_the_formats() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in (PACKAGE / "templates").rglob("*.html")
        for match in FILTERS.finditer(path.read_text())
    }

    assert sorted(found) == []


def test_the_formats_in_english_and_in_german() -> None:
    noon = datetime(2031, 1, 2, 12, 3, 4, tzinfo=UTC)
    cases: list[tuple[str, Any, str, str]] = [
        ("number", 1234567, "1,234,567", "1.234.567"),
        ("digits", 1234.5, "1,234", "1.234"),
        ("digits", 12.345, "12.3", "12,3"),
        ("digits", 0.1 + 0.2, "0.3", "0,3"),
        ("digits", -0.25, "-0.25", "-0,25"),
        ("duration", 90_061, "1 d 1 h", "1 d 1 h"),
        ("precise", 0.0032, "3.2 ms", "3,2 ms"),
        ("precise", 0.9996, "1 s", "1 s"),
        ("precise", 1.25, "1.25 s", "1,25 s"),
        ("precise", 59.97, "1 min", "1 min"),
        ("size", 1023, "1,023 B", "1.023 B"),
        ("size", 61_000_000, "58.2 MiB", "58,2 MiB"),
        ("rate", 0.001, "< 0.01", "< 0,01"),
        ("rate", 0.5, "0.5", "0,5"),
        ("percent", 0.425, "42.5 %", "42,5 %"),
        *(
            (name, None, "-", "-")
            for name in ("number", "digits", "duration", "precise", "size", "rate", "percent")
        ),
    ]
    for name, value, plain, german in cases:
        assert getattr(PLAIN, name)(value) == plain, name
        with override("de"):
            assert getattr(LOCAL, name)(value) == german, name
    assert PLAIN.time(noon) == "2031-01-02 12:03:04 UTC"
