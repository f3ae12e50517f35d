"""A message published by hand: a test message, or a copy with edits."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from django_mq.admin import report
from django_mq.admin.letter_form import LetterForm, copied
from django_mq.admin.table import TableAdmin, alias
from django_mq.delivery.publishing import publish_many
from django_mq.errors import MQError
from django_mq.models import Message

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

#: Names, in the address of the form, the row id of the message to copy.
COPY = "copy"


class Publishing(TableAdmin):
    """Mixed into the messages' admin: its page to add a message publishes one."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, "add_message")

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for a message and publish it. Needs the permission to add messages; to copy, to view them too."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = LetterForm(request.POST or None, initial=self._copied(request))
        if form.is_valid():
            try:
                (message_id,) = publish_many([form.letter()], using=alias())
            except MQError as error:
                form.add_error(None, str(error))
            else:
                self._tell(request, form.cleaned_data["queue"].name, str(message_id))
                return HttpResponseRedirect(self._next(request))
        return self._page(request, form)

    def add_address(self) -> str:
        """Return the address of the form on this site."""
        return f"{self.list_address(Message)}add/"

    def _copied(self, request: HttpRequest) -> dict[str, Any] | None:
        wanted = request.GET.get(COPY, "")
        if not wanted.isdecimal() or not self.has_view_permission(request):
            return None
        # As its page would find it: a site may hide some rows.
        message = self.get_object(request, wanted[:18])
        seen = message if self.has_view_permission(request, message) else None
        found = seen and copied(seen)
        if not found:
            self.message_user(request, _("This message cannot be copied here."), messages.WARNING)
        return found or None

    def _tell(self, request: HttpRequest, queue: str, message_id: str) -> None:
        sentence = _("Published to “%(queue)s”: %(id)s") % {"queue": queue, "id": message_id}
        report.log_published(request, message_id, sentence)
        self.message_user(request, sentence, messages.SUCCESS)

    def _next(self, request: HttpRequest) -> str:
        # Whoever may publish need not be one who may look.
        return self.list_address(Message) if self.has_view_permission(request) else request.get_full_path()

    def _page(self, request: HttpRequest, form: LetterForm) -> TemplateResponse:
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": _("Publish a message"),
            "opts": self.opts,
            "form": form,
            "has_view_permission": self.has_view_permission(request),
            "media": self.media + form.media,
        }
        return TemplateResponse(request, "admin/django_mq/message/publish.html", context)
