"""The messages an operator has chosen, as they were when the action began, and what is done to them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _

from django_mq.admin import columns, report
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.operations import runner
from django_mq.admin.table import alias
from django_mq.delivery.operator.actions import in_delivery_order, rows_of
from django_mq.diagnosis.messages import criteria
from django_mq.diagnosis.messages.slices import as_listed
from django_mq.errors import MQError
from django_mq.models import Message, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.db.models import Q, QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.messages.actions import MessageAction
    from django_mq.diagnosis.messages.slices import Look

    #: How a list finds what a request asks for.
    Find = Callable[..., Look]

#: Most messages changed while the page waits; with "select all", more become an operation in the background.
LIMIT = 1_000


class Selection:
    """Chosen messages, in delivery order, and how many were asked for."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], find: Find, among: Q | None = None) -> None:
        across = _is_across(request)
        #: Of all that match, those that the action is for; who was chosen one by one is told why it stays.
        self._find = partial(find, request, queryset, among=among if across else None)
        look = self._look = self._find(LIMIT + 1) if across else as_listed(queryset, LIMIT)
        found = rows_of(queryset.model.objects.using(queryset.db).filter(pk__in=look.ids[:LIMIT]))
        #: More than a page may wait for, or more than it has looked through: only with "select all".
        self.cut = len(look.ids) > LIMIT or not look.whole
        self.messages = in_delivery_order(found)
        self.asked = max(len(self.messages), self._named(request))

    def count(self, limit: int) -> tuple[int, bool]:
        """Return how many match, those beyond what a page may change too, and whether these are all."""
        # What patience has not found once, it would not find again.
        look = self._find(limit) if self._look.whole else self._look
        return len(look.ids), look.whole and len(look.ids) < limit

    @staticmethod
    def _named(request: HttpRequest) -> int:
        """Return how many rows the request names: some may have left the list since it was shown."""
        return 0 if _is_across(request) else len(set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))

    @property
    def states(self) -> Counter[int]:
        """How many messages were in each state; those that had left are not counted."""
        return Counter(chosen.state for chosen in self.messages)


def _is_across(request: HttpRequest) -> bool:
    """Return whether all that match the list's filters are meant, and not only those with a tick."""
    return request.POST.get("select_across") == "1"


class SelectionAdmin(ActionAdmin):
    """A list of messages whose actions are done to a selection: at once, or to very many in the background."""

    def chosen(self, action: Any, request: HttpRequest, queryset: QuerySet[Message]) -> Selection:
        return Selection(request, queryset, self.look, action.among)

    def preview(self, action: Any, chosen: Selection) -> Preview:
        rows = [
            [
                str(Message.Status(state).label),
                columns.exact(count),
                "" if state in action.states else _("will be left alone"),
            ]
            for state, count in sorted(chosen.states.items())
        ]
        if not chosen.cut:
            return Preview([_("State"), _("Messages"), _("Remark")], rows)
        sentence = _("And more: all that match the filters, %(count)s messages, in the background.")
        count, whole = chosen.count(columns.COUNTED)
        more = sentence % {"count": columns.shown(count, more=not whole)}
        return Preview([_("State"), _("Messages"), _("Remark")], rows, more)

    def do(
        self, action: Any, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse | None:
        if chosen.cut:
            return self._do_in_background(action, answers, request, chosen)
        try:
            changed = action.run(chosen.messages, answers, alias())
        except MQError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        sentence = report.told(action, answers, chosen, changed)
        if changed:
            report.log(request, chosen, sentence)
        self.message_user(request, sentence, messages.SUCCESS if changed == chosen.asked else messages.WARNING)
        return None

    def _do_in_background(
        self, action: MessageAction, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse:
        """Begin an operation on all that match the list's filters, and show how it gets on."""
        if not self.is_as_its_address_says(request):
            words = _(
                "Nothing was done: operations in the background do not know a filter of this list. "
                "Filter it to %(limit)s messages or fewer, or select some."
            )
            self.message_user(request, words % {"limit": LIMIT}, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        filters = criteria.known(request.GET.dict())
        expected, whole = chosen.count(columns.COUNTED)
        user_name = request.user.get_username()
        operation = runner.begin(action, filters, answers, user_name=user_name, expected=expected)
        sentence = _("%(action)s: begun for all that match, some %(count)s messages.") % {
            "action": action.label,
            "count": columns.shown(operation.expected, more=not whole),
        }
        report.log_operation(request, operation, sentence)
        self.message_user(request, sentence, messages.SUCCESS)
        if not self.may(request, "view_operation"):
            return HttpResponseRedirect(request.get_full_path())
        return HttpResponseRedirect(self.page_address(Operation, operation.pk))
