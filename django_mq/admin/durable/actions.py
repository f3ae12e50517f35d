"""The actions on events of durable handlers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line
from django_mq.admin.actions import Action, GoneError
from django_mq.admin.forms import Confirmation
from django_mq.admin.table import alias
from django_mq.durable import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.durable.models import DurableEvent


class Payload(forms.Form):
    payload = forms.CharField(
        label=gettext_lazy("Payload"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("JSON, which the handlers get. Empty: null."),
    )

    def clean_payload(self) -> str:
        text: str = self.cleaned_data["payload"].strip()
        try:
            json.loads(text or "null")
        except ValueError as error:
            raise forms.ValidationError(_("This is no JSON: %(error)s") % {"error": error}) from None
        return text


def _emit(row: DurableEvent, answers: Mapping[str, Any]) -> str:
    payload = json.loads(answers.get("payload") or "null")
    if not events.emit(row.name, row.key, payload, ttl_seconds=None, alias=alias()):
        raise GoneError(_("“%(event)s” was emitted already.") % {"event": row})
    return _("“%(event)s” is emitted.") % {"event": row}


def _delete(row: DurableEvent, _answers: Mapping[str, Any]) -> str:
    events.delete(row.name, row.key, alias=alias())
    return _("“%(event)s” is deleted.") % {"event": row}


def _named(row: DurableEvent) -> list[Any]:
    return [row.name, *filter(None, [row.key])]


EMIT = Action(
    name="emit",
    permission="emit_durableevent",
    label=gettext_lazy("Emit"),
    run=_emit,
    question=Payload,
    warning=gettext_lazy(
        "All handlers that wait for the event go on with this payload. Only the first event of a name and a key "
        "counts: what the application emits later changes nothing."
    ),
    command=lambda row, answers: line(
        "mq_events",
        *(["--payload", answers["payload"]] if answers.get("payload") else []),
        names=["emit", *_named(row)],
    ),
)
DELETE = Action(
    name="delete",
    permission="delete_durableevent",
    label=gettext_lazy("Delete"),
    run=_delete,
    question=Confirmation,
    warning=gettext_lazy(
        "A handler that asks for the event later waits until it is emitted again. An event for which something "
        "waits is not deleted."
    ),
    harmful=True,
    command=lambda row, _answers: line("mq_events", names=["delete", *_named(row)]),
)
ACTIONS = (EMIT, DELETE)
