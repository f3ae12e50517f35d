"""What every act of an operator has, whatever it is done to: a name, and what it asks before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django import forms
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """An act as its button and its page show it."""

    name: str
    label: StrOrPromise
    #: The form to answer first; None for an act that harms nobody.
    question: type[forms.Form] | None = None
    warning: StrOrPromise = ""
    #: Shown with a red button.
    harmful: bool = False
