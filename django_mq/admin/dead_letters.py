"""The list of dead letters: how often each has failed, with what at first, and with what at last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_mq.admin import columns, failures
from django_mq.admin.paging import BoundedChangeList
from django_mq.admin.table import TableAdmin
from django_mq.diagnosis.indexed import DEAD_LETTERS
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.contrib.admin.views.main import ChangeList
    from django.http import HttpRequest

    from django_mq.admin.failures import Failure

#: Values of the filter of states that show dead letters and nothing else.
STATES = {str(Message.Status.DEAD.value), DEAD_LETTERS}
#: In place of the priority, which no longer matters, and of the attempts, which a move to another queue forgets.
COLUMNS = ["short_id", "queue", "situation", "type", "failed", "first_error", "last_error", "published"]


class DeadLetterList(BoundedChangeList):
    """A page of the list, with what went wrong with its messages: a few statements for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        failures.summarise(self.result_list)


class DeadLetters(TableAdmin):
    """Columns of the message list, where it shows dead letters."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return DeadLetterList if _shows_letters(request.GET) else super().get_changelist(request, **kwargs)

    def get_list_display(self, request: HttpRequest) -> Any:
        return COLUMNS if _shows_letters(request.GET) else super().get_list_display(request)

    @admin.display(description=_("failed attempts"))
    def failed(self, message: Message) -> int:
        return failures.of_row(message).attempts

    @admin.display(description=_("first error"), empty_value="-")
    def first_error(self, message: Message) -> str | None:
        return _told(failures.of_row(message).first)

    @admin.display(description=_("last error"), empty_value="-")
    def last_error(self, message: Message) -> str | None:
        return _told(failures.of_row(message).last)


def _shows_letters(address: Mapping[str, str]) -> bool:
    return address.get("state") in STATES


def _told(failure: Failure | None) -> str | None:
    """Return what went wrong, and when on hover."""
    if failure is None:
        return None
    cut = len(failure.detail) > failures.WORDS
    detail = f"{failure.detail[: failures.WORDS]}…" if cut else failure.detail
    words = f"{failure.error}: {detail}" if detail else failure.error
    return format_html('<span title="{}">{}</span>', columns.time_text(failure.failed_at), words)
