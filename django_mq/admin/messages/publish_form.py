"""The form that publishes a message, or an edited copy of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.forms.fields import InvalidJSONInput
from django.http import HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_mq.admin import report
from django_mq.admin.messages.actions import CANCEL
from django_mq.admin.table import alias
from django_mq.delivery.codecs import JSON, TEXT
from django_mq.delivery.operator.actions import publish_instead
from django_mq.delivery.operator.redrives import origin_of
from django_mq.delivery.publisher import OutgoingMessage, publish_many
from django_mq.diagnosis.messages import masking, payload
from django_mq.diagnosis.messages.copies import kept_correlation_id, with_arguments_shown, without_traces
from django_mq.diagnosis.messages.task_ids import with_task_id
from django_mq.engine.states import State
from django_mq.errors import MQError
from django_mq.models import Message, Queue

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin

#: The parameter for the row id of the message to copy.
COPY = "copy"
#: The field that asks to cancel it.
CANCEL_ORIGINAL = "cancel_original"
KINDS = ((JSON, "JSON"), (TEXT, _("text")))


class HeadersField(forms.JSONField):
    """A JSON field that also refuses JSON that is too deep for Python, or has too long numbers."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return super().bound_data(data, initial)
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        return payload.sendable(super().prepare_value(value))


class PublishForm(forms.Form):
    queue = forms.ModelChoiceField(queryset=Queue.objects.none(), to_field_name="name", label=_("Queue"))
    kind = forms.ChoiceField(choices=KINDS, initial=JSON, label=_("Body is"))
    body = forms.CharField(
        required=False, strip=False, widget=forms.Textarea(attrs={"rows": 12, "cols": 80}), label=_("Body")
    )
    headers = HeadersField(
        required=False,
        initial=dict,  # or the field shows "null"
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80}),
        label=_("Headers"),
        help_text=_("A JSON object, or nothing."),
    )
    type = forms.CharField(required=False, max_length=255, widget=AdminTextInputWidget, label=_("Type"))
    group_key = forms.CharField(required=False, max_length=255, widget=AdminTextInputWidget, label=_("Group key"))
    correlation_id = forms.CharField(
        required=False, max_length=255, widget=AdminTextInputWidget, label=_("Correlation id")
    )
    priority = forms.IntegerField(
        min_value=0, max_value=9, initial=4, label=_("Priority"), help_text=_("0 to 9, 9 first.")
    )
    delay = forms.FloatField(
        required=False, min_value=0, label=_("Deliver after seconds"), help_text=_("Empty = at once.")
    )

    cancel_original = forms.BooleanField(
        required=False,
        label=_("Cancel the original"),
        help_text=_("In the same transaction: if the original cannot be cancelled, nothing is published."),
    )

    def __init__(self, *args: Any, original: Message | None = None, **kwargs: Any) -> None:
        """``original`` is the message to copy, if the user may cancel it."""
        super().__init__(*args, **kwargs)
        if original is None:
            del self.fields[CANCEL_ORIGINAL]
        self.fields["queue"].queryset = Queue.objects.using(alias()).filter(closed=False)  # type: ignore[attr-defined]

    def clean_headers(self) -> dict[str, Any]:
        headers = self.cleaned_data["headers"]
        if headers is not None and not isinstance(headers, dict):
            raise forms.ValidationError(_("The headers are not a JSON object."))
        return headers or {}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        text = cleaned.get("body", "")
        cleaned["content"] = text
        if cleaned.get("kind") == JSON:
            try:
                cleaned["content"] = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.add_error("body", _("This is not JSON: %(error)s") % {"error": error})
        return cleaned

    def outgoing(self) -> OutgoingMessage:
        """Return the message. A Celery task without an id is given one."""
        given = self.cleaned_data
        outgoing = OutgoingMessage(
            queue=given["queue"].name,
            body=given["content"],
            content_type=given["kind"],
            headers=given["headers"],
            type=given["type"],
            group_key=given["group_key"],
            correlation_id=given["correlation_id"],
            priority=given["priority"],
            delay=given["delay"],
        )
        return with_task_id(with_arguments_shown(outgoing))


def copied(message: Message) -> dict[str, Any] | None:
    """Return the initial values for a copy; None if the message is binary, too long, encrypted or partly hidden.

    The copy of a dead letter goes where the dead letter came from, and replaces it.
    """
    queue = message.queue.name
    body = payload.body(message.body, message.content_type, message.content_encoding, queue=queue)
    headers = payload.raw(message, "headers") or "{}"
    if body.cut or body.problem or body.masked or body.kind not in {"json", "text"}:
        return None
    try:
        known = json.loads(headers)
    except (ValueError, RecursionError):
        known = {}
    if masking.masked_headers(known, queue) != known:
        return None
    kept = without_traces(known) if isinstance(known, dict) else {}
    return {
        "queue": home_of(message, headers),
        CANCEL_ORIGINAL: message.is_dead_letter,
        "kind": JSON if body.kind == "json" else TEXT,
        "body": body.text,
        "headers": kept,
        "type": message.type,
        "group_key": message.group_key,
        "correlation_id": kept_correlation_id(kept, message.correlation_id),
        "priority": message.priority,
    }


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the form and publish its message. To copy a message takes the permission to view it."""
    message = _original(admin, request)
    initial = copied(message) if message is not None else None
    if initial is None and request.GET.get(COPY):
        admin.message_user(request, gettext("This message cannot be copied here."), messages.WARNING)
    original = message if initial and message and _may_cancel(admin, request, message) else None
    form = PublishForm(request.POST or None, initial=initial, original=original)
    cancels = CANCEL_ORIGINAL in request.POST
    if form.is_valid():
        try:
            if cancels:
                # If it cannot be cancelled any more, nothing is published either.
                message_id = publish_instead(form.outgoing(), original.pk if original else None, using=alias())
            else:
                (message_id,) = publish_many([form.outgoing()], using=alias())
        except MQError as error:
            form.add_error(None, str(error))
        else:
            words = {"queue": form.cleaned_data["queue"].name, "id": str(message_id)}
            sentence = gettext("Published to “%(queue)s”: %(id)s") % words
            if cancels and original is not None:
                words = {"id": str(original.message_id)}
                sentence = f"{sentence} {gettext('The original is cancelled: %(id)s') % words}"
            report.log_published(request, str(message_id), sentence)
            admin.message_user(request, sentence, messages.SUCCESS)
            may_view = admin.has_view_permission(request)
            return HttpResponseRedirect(admin.list_address(Message) if may_view else request.get_full_path())
    return admin.page(
        request,
        "message/publish",
        gettext("Publish a message"),
        form=form,
        has_view_permission=admin.has_view_permission(request),
        media=admin.media + form.media,
    )


def home_of(message: Message, headers: str) -> str:
    """Return the queue for a copy: of a dead letter its original queue, of another message its own.

    Nothing is chosen in a dead-letter queue if the original queue is not known.
    """
    here = message.queue.name
    if not message.is_dead_letter or message.state == State.DEAD:
        return here
    home = origin_of(here, headers)
    return "" if home == here else home


def _original(admin: TableAdmin, request: HttpRequest) -> Message | None:
    """Return the message to copy, if the user may view it."""
    wanted = request.GET.get(COPY, "")
    if not wanted.isdecimal() or not admin.has_view_permission(request):
        return None
    # From the queryset of the page: a site may hide some rows.
    message: Message | None = admin.get_object(request, wanted[:18])
    return message if admin.has_view_permission(request, message) else None


def _may_cancel(admin: TableAdmin, request: HttpRequest, message: Message) -> bool:
    return message.state in CANCEL.states and admin.may(request, CANCEL.permission)
