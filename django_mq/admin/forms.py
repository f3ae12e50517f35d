"""The forms that actions show before they run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import alias
from django_mq.delivery.operator.commands import MOST_CREDIT
from django_mq.delivery.validation import aware
from django_mq.engine.decisions.acts import MOST_CHARACTERS
from django_mq.errors import InvalidMessage
from django_mq.failures.staged import MOST_FIRST
from django_mq.models import Queue


class Confirmation(forms.Form):
    """A form without fields."""


class Typed(forms.Form):
    """A word to type, so that users read before they confirm."""

    #: The same in every language.
    WORD = "purge"

    typed = forms.CharField(
        label=format_lazy(_("Type “{word}”"), word=WORD),
        widget=AdminTextInputWidget(attrs={"autocomplete": "off"}),
    )

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed.strip().lower() != self.WORD:
            raise forms.ValidationError(_("Nothing was removed: type “%(word)s”.") % {"word": self.WORD})
        return typed


class TargetForm(forms.Form):
    target = forms.ModelChoiceField(
        queryset=Queue.objects.none(),
        to_field_name="name",
        label=_("Target queue"),
        help_text=_("The messages go to its end, and their attempts start again. Closed queues are not offered."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["target"].queryset = Queue.objects.using(alias()).filter(closed=False)  # type: ignore[attr-defined]

    def clean_target(self) -> str:
        target: Queue = self.cleaned_data["target"]
        return target.name


class Time(forms.Form):
    deliver_at = forms.DateTimeField(
        label=_("Deliver at"),
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        help_text=_("In the time zone %(zone)s."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["deliver_at"]
        field.help_text = field.help_text % {"zone": timezone.get_current_timezone_name()}

    def clean_deliver_at(self) -> datetime:
        given: datetime = self.cleaned_data["deliver_at"]
        if timezone.is_naive(given):  # a site without time zones
            given = timezone.make_aware(given)
        try:
            given = aware(given, "deliver_at")
        except InvalidMessage:
            raise forms.ValidationError(self.fields["deliver_at"].error_messages["invalid"]) from None
        if given <= datetime.now(UTC):
            raise forms.ValidationError(_("This time is in the past. To deliver at once, use “Deliver now”."))
        return given


class Priority(forms.Form):
    priority = forms.IntegerField(
        label=_("Priority"),
        min_value=0,
        max_value=9,
        initial=4,
        help_text=_("0 to 9, 9 first. The messages go to the end of their new level."),
    )


class GivenCredit(forms.Form):
    credit = forms.IntegerField(
        label=_("Max in flight"),
        required=False,
        min_value=1,
        max_value=MOST_CREDIT,
        help_text=_(
            "The most messages that each consumer of the worker holds at a time, its credit. Empty = its own."
        ),
    )


def reason_field() -> forms.CharField:
    """Return the field that asks why so many messages are changed."""
    return forms.CharField(
        label=_("Reason"),
        max_length=MOST_CHARACTERS,
        widget=AdminTextInputWidget,
        help_text=_("These are many messages. The reason is kept with what you do."),
    )


class Acknowledgement(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=200,
        widget=AdminTextInputWidget,
        help_text=_("Shown on the page of the message."),
    )


class Pause(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=200,
        widget=AdminTextInputWidget,
        help_text=_("Shown wherever the queue is shown."),
    )
    minutes = forms.FloatField(
        label=_("Resume after minutes"),
        required=False,
        min_value=0.1,
        max_value=60 * 24 * 366,
        help_text=_("Empty = until the queue is resumed."),
    )


class Staging(forms.Form):
    first = forms.IntegerField(
        label=_("First"),
        required=False,
        min_value=1,
        max_value=MOST_FIRST,
        initial=10,
        help_text=_("So many go first. The rest follows when these have succeeded. Empty = all at once."),
    )
    per_minute = forms.FloatField(
        label=_("Most a minute"),
        required=False,
        min_value=0.1,
        max_value=1_000_000,
        help_text=_("Empty = no limit."),
    )


class Deletion(forms.Form):
    force = forms.BooleanField(
        label=_("Delete their messages too"),
        required=False,
        help_text=_(
            "They go to the queue's dead-letter queue if it has one. Without this, a queue with messages is not "
            "deleted. A queue with claimed messages is never deleted."
        ),
    )
