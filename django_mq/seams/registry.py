"""Imports the extensions and the middleware that the settings name."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import MiddlewareNotUsed
from django.utils.module_loading import import_string

from django_mq.engine.options import MEMORY_OPTIONS, OPTIONS, TYPES, Option
from django_mq.errors import UnusableExtension, UnusableMiddleware, shown
from django_mq.seams.extension import PAGES, Duty, Extension, Listening, Panel, SearchKeys
from django_mq.seams.limits import ClaimLimit
from django_mq.seams.middleware import fault_of, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


#: The most characters of the name of a listening, which stands in rows of messages.
MOST_CHARACTERS: Final = 50
#: What the fields have that have no functions.
KINDS: Final[Mapping[str, type]] = {
    "duties": Duty,
    "panels": Panel,
    "searches": SearchKeys,
    "ends": Listening,
    "limits": ClaimLimit,
    "queue_options": Option,
    "handler_options": Option,
    "settings": Option,
}


#: What the other fields have, if it is no functions.
WANTED: Final = {"middleware": "objects"}


def imported(paths: Any) -> tuple[Extension, ...]:
    """Return the extensions with these dotted paths. Raises UnusableExtension."""
    if not isinstance(paths, (list, tuple)):
        raise UnusableExtension(f"EXTENSIONS is {shown(paths)}; give a list of dotted paths.")
    found = tuple(map(_imported, paths))
    for name, number in Counter(extension.name for extension in found).items():
        if number > 1:
            raise UnusableExtension(
                f"EXTENSIONS has {number} extensions with the name {name!r}; rename or remove one."
            )
    return found


def _imported(path: Any) -> Extension:
    if not isinstance(path, str):
        raise UnusableExtension(f"EXTENSIONS has {shown(path)}; give the dotted path of an Extension.")
    try:
        found = import_string(path)
    except Exception as error:
        # A module of the project may raise anything.
        raise UnusableExtension(f"EXTENSIONS has {path!r}, which cannot be imported: {error}") from error
    if not isinstance(found, Extension):
        raise UnusableExtension(f"EXTENSIONS has {path!r}, which is no Extension, but {shown(found)}.")
    if problem := next(_problems(found), None):
        raise UnusableExtension(f"EXTENSIONS has {path!r}, {problem}.")
    return found


def made(paths: Sequence[str]) -> tuple[Any, ...]:
    """Return the middleware with these dotted paths, made anew. Raises UnusableMiddleware.

    A factory that raises Django's MiddlewareNotUsed is left out, as Django does.
    """
    return tuple(chain.from_iterable(map(_made, paths)))


def _made(path: str) -> Iterator[Any]:
    try:
        factory = import_string(path)
    except Exception as error:
        # A module of the project may raise anything.
        raise UnusableMiddleware(f"MIDDLEWARE has {path!r}, which cannot be imported: {error}") from error
    if not callable(factory):
        raise UnusableMiddleware(f"MIDDLEWARE has {path!r}, which is {shown(factory)}; give the path of a class.")
    try:
        middleware = factory()
    except MiddlewareNotUsed:
        return
    except UnusableMiddleware as error:
        raise UnusableMiddleware(f"MIDDLEWARE has {path!r}. {error}") from error
    except Exception as error:
        raise UnusableMiddleware(
            f"MIDDLEWARE has {path!r}, which cannot be called without arguments: {type(error).__name__}: {error}"
        ) from error
    if problem := fault_of(middleware):
        raise UnusableMiddleware(f"MIDDLEWARE has {path!r}, which {problem}.")
    yield middleware


def _problems(extension: Extension) -> Iterator[str]:
    """Yield what is wrong with an extension, as the end of a sentence."""
    if not (isinstance(extension.name, str) and extension.name.isidentifier() and extension.name.islower()):
        yield f"whose name is {shown(extension.name)}; use an identifier in small letters"
        return
    wrong = list(_wrong_values(extension))
    yield from wrong
    if not wrong:
        yield from _problems_of_duties_and_panels(extension)
        yield from _problems_of_listenings(extension)
        yield from _problems_of_options(extension)


def _wrong_values(extension: Extension) -> Iterator[str]:
    for field in fields(extension):
        if field.name == "name":
            continue
        value, kind = getattr(extension, field.name), KINDS.get(field.name)
        wanted = f"values of {kind.__name__}" if kind else WANTED.get(field.name, "functions")
        if not isinstance(value, tuple):
            yield f"whose {field.name} are {shown(value)}; give a tuple of {wanted}"
            continue
        for each in value:
            if field.name == "middleware":
                if problem := fault_of(each):
                    yield f"whose middleware {named(each)} {problem}"
            elif not (isinstance(each, kind) if kind else callable(each)):
                yield f"which has {shown(each)} in {field.name}; give {wanted}"


def _problems_of_duties_and_panels(extension: Extension) -> Iterator[str]:
    for duty in extension.duties:
        if duty.limit < 1 or duty.interval_seconds < 0:
            yield f"whose duty {duty.name!r} has a limit below 1, or an interval below 0"
    for panel in extension.panels:
        if panel.page not in PAGES:
            yield f"which has a panel for the page {shown(panel.page)}; use one of {', '.join(PAGES)}"


def _problems_of_listenings(extension: Extension) -> Iterator[str]:
    for listening in extension.ends:
        if not listening.name.isidentifier() or len(listening.name) > MOST_CHARACTERS:
            yield (
                f"whose listening has the name {shown(listening.name)}; use an identifier of at most"
                f" {MOST_CHARACTERS} characters"
            )


def _problems_of_options(extension: Extension) -> Iterator[str]:
    prefix = f"{extension.name}_"
    kinds = [
        (prefix, extension.queue_options),
        (prefix, extension.handler_options),
        (prefix.upper(), extension.settings),
    ]
    for beginning, options in kinds:
        for option in options:
            if option.name in {*OPTIONS, *MEMORY_OPTIONS}:
                yield f"whose option {option.name!r} is one of django_mq"
            elif not option.name.startswith(beginning):
                yield f"whose option {option.name!r} has another extension's name; begin it with {beginning!r}"
            elif options is extension.queue_options and not (option.label and option.section):
                yield f"whose option {option.name!r} has no label or no section, which the admin shows"
            elif problem := _problem(option):
                yield f"whose option {option.name!r} {problem}"


def _problem(option: Option) -> str | None:
    if not option.name.isidentifier():
        return "has a name that is no identifier"
    if option.base_type not in TYPES or option.type not in (option.base_type, f"{option.base_type} | None"):
        return f"has the type {option.type!r}; use one of {', '.join(TYPES)}, perhaps with ' | None'"
    if option.base_type == "str" and not (option.choices or option.length or option.is_link):
        return "is a text; give its length, or choices"
    if (fault := option.fault(option.default)) is not None:
        return f"has the default {shown(option.default)}; {fault}"
    return None
