"""What a request to a list may say: what one of its filters takes, ids of rows, and nothing else.

Django would take any lookup of any column from an address, ``headers__password__startswith`` or ``body__regex``:
whoever sees a list could guess what is hidden of its rows, letter by letter, or keep the database busy. And an
operation in the background, which knows the filters alone, would go on to rows that the list did not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.options import IncorrectLookupParameters
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest, QueryDict

#: No text of a database has it, and PostgreSQL refuses a statement that names it.
NUL = "\x00"
#: Digits of an id that every database takes for a number.
ID_DIGITS = 18


def has_nul(request: HttpRequest) -> bool:
    """Return whether the address holds a character that no row can."""
    return any(NUL in name or any(NUL in value for value in values) for name, values in request.GET.lists())


def refuse_nul(request: HttpRequest) -> None:
    """Raise IncorrectLookupParameters, by which the list is shown unfiltered, and tell the reader."""
    if has_nul(request):
        _refuse(request, "NUL")


def refuse_unknown(request: HttpRequest, left: Iterable[str]) -> None:
    """Do the same if a parameter is left that no filter has taken."""
    names = sorted(left)
    if names:
        _refuse(request, ", ".join(names))


def with_ids_only(posted: QueryDict) -> QueryDict:
    """Return what was posted, and of the rows it names those whose names can be ids: Django would ask for all."""
    kept = posted.copy()
    named = posted.getlist(helpers.ACTION_CHECKBOX_NAME)
    kept.setlist(helpers.ACTION_CHECKBOX_NAME, [text for text in named if is_id(text)])
    kept._mutable = False  # noqa: SLF001 - QueryDict has no other way
    return kept


def is_id(text: str) -> bool:
    """Return whether a text can name a row."""
    return text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS


def _refuse(request: HttpRequest, what: str) -> Any:
    sentence = _("This list cannot be filtered by %(what)s; it is shown unfiltered.")
    messages.warning(request, sentence % {"what": what[:100]})
    raise IncorrectLookupParameters(what)
