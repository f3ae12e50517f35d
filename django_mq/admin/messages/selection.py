"""The messages that an operator has chosen, and what an action does to them."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _

from django_mq.acts import recorder
from django_mq.acts.command_lines import NamedMessages
from django_mq.admin import columns, report
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.forms import Confirmation
from django_mq.admin.operations import runner
from django_mq.admin.table import alias
from django_mq.delivery.operator import redrives
from django_mq.delivery.operator.actions import in_delivery_order, rows_of
from django_mq.delivery.operator.recalls import recalled
from django_mq.diagnosis.language import LOCAL, exact
from django_mq.diagnosis.messages import criteria
from django_mq.diagnosis.messages.slices import as_listed
from django_mq.diagnosis.state.obstacles import obstacles_on
from django_mq.engine.states import CLAIMED
from django_mq.errors import MQError
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Message, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.db.models import Q, QuerySet
    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.messages.actions import MessageAction
    from django_mq.diagnosis.messages.slices import FoundKeys

    #: Finds the rows that a request asks for.
    Find = Callable[..., FoundKeys]

#: The most messages that a request changes. With "select all", more become an operation in the background.
LIMIT = 1_000
#: The most messages that the line of a command names.
MOST_NAMED = 200


class Selection:
    """The chosen messages, in delivery order."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], find: Find, among: Q | None = None) -> None:
        across = _is_across(request)
        #: With "select all" only messages that the action is for; of others, the report says why they stay.
        #: The filters of the list; None if the rows were chosen one by one.
        self.filters = criteria.known(request.GET.dict()) if across else None
        #: Whether the filters describe the list.
        self.is_described = True
        self._find = partial(find, request, queryset, among=among if across else None)
        look = self._look = self._find(LIMIT + 1) if across else as_listed(queryset, LIMIT)
        self._rows = queryset.model.objects.using(queryset.db).filter(pk__in=look.ids[:LIMIT])
        #: Whether there are more than a page may wait for; only with "select all".
        self.cut = len(look.ids) > LIMIT or not look.is_complete
        self.read()
        self.asked = max(len(self.messages), self._named(request))

    def read(self) -> None:
        """Read the messages as they are now."""
        self.messages = in_delivery_order(rows_of(self._rows))

    def count(self, limit: int) -> tuple[int, bool]:
        """Count all that match, up to a limit; return the number and whether these are all."""
        # What was not found in time would not be found again.
        look = self._find(limit) if self._look.is_complete else self._look
        return len(look.ids), look.is_complete and len(look.ids) < limit

    @staticmethod
    def _named(request: HttpRequest) -> int:
        """Return how many rows the request names. Some may have left the list since."""
        return 0 if _is_across(request) else len(set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))

    @property
    def criterion(self) -> dict[str, Any]:
        """How the messages were chosen."""
        return {"chosen": self.asked} if self.filters is None else {"filters": self.filters}

    def named(self, *, by_filters: bool) -> NamedMessages | None:
        """Return the messages as commands name them; None if no command can."""
        if self.filters:
            return NamedMessages(self.filters) if by_filters else None
        if self.cut or len(self.messages) > MOST_NAMED:
            return None
        return NamedMessages({}, [message.message_id for message in self.messages])

    @property
    def states(self) -> Counter[int]:
        """How many messages are in each state."""
        return Counter(chosen.state for chosen in self.messages)

    @cached_property
    def obstacles(self) -> str:
        """What keeps these messages from being delivered after a redrive; empty for nothing."""
        ways = redrives.ways([message.id for message in self.messages], using=alias())
        return report.obstacles(obstacles_on(ways, using=alias()))


def _is_across(request: HttpRequest) -> bool:
    """Return whether "select all" is on."""
    return request.POST.get("select_across") == "1"


def _left(action: MessageAction, state: int) -> str:
    if action.recalls and state == CLAIMED:
        return _("what a worker has begun will be left alone")
    return _("will be left alone")


class SelectionAdmin(ActionAdmin):
    """A list of messages whose actions run at once, or in the background on very many messages."""

    def chosen(self, action: Any, request: HttpRequest, queryset: QuerySet[Message]) -> Selection:
        selection = Selection(request, queryset, self.look, action.among)
        selection.is_described = self.is_described_by_url(request)
        return selection

    def doubt(self, action: Any, chosen: Selection) -> type[Form] | None:
        """Ask before a redrive into a queue that is paused or full."""
        return Confirmation if self._obstacles(action, chosen) else None

    @staticmethod
    def _obstacles(action: Any, chosen: Selection) -> str:
        return chosen.obstacles if action.name == "redrive" else ""

    def count_up_to(self, action: Any, chosen: Selection, limit: int) -> int:  # noqa: ARG002 - of other pages
        return chosen.count(limit)[0] if chosen.cut else len(chosen.messages)

    def commands(self, action: Any, chosen: Selection, answers: Mapping[str, Any]) -> list[str]:
        named = chosen.named(by_filters=chosen.is_described)
        return [] if named is None else super().commands(action, [named], answers)

    def preview(self, action: Any, chosen: Selection) -> Preview:
        obstacles = self._obstacles(action, chosen)
        rows = [
            [
                columns.state_name(state),
                exact(count),
                "" if state in action.states else _left(action, state),
            ]
            for state, count in sorted(chosen.states.items())
        ]
        if not chosen.cut:
            return Preview([_("State"), _("Messages"), _("Remark")], rows, obstacles)
        sentence = _("And more: all that match the filters, %(count)s messages, in the background.")
        count, is_complete = chosen.count(COUNT_LIMIT)
        more = sentence % {"count": LOCAL.bounded(count, more=not is_complete)}
        return Preview([_("State"), _("Messages"), _("Remark")], rows, f"{more} {obstacles}".strip())

    def do(
        self, action: Any, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse | None:
        if chosen.cut:
            return self._do_in_background(action, answers, request, chosen)
        act = self.new_act(request, action.name, **self._described(action, answers, chosen))
        try:
            held_in = action.held_in(chosen.messages)
            with recalled(held_in, using=alias()):
                if held_in:
                    chosen.read()
                rows = chosen.messages
                run = partial(action.run, rows, answers, alias())
                changed = len(recorder.perform(act, rows, run, using=alias()))
        except MQError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        sentence = report.told(action, answers, chosen, changed)
        if changed:
            recorder.told(act, sentence, using=alias())
            report.log(request, chosen, sentence)
        self.message_user(request, sentence, messages.SUCCESS if changed == chosen.asked else messages.WARNING)
        return None

    def _described(self, action: Any, answers: Mapping[str, Any], chosen: Selection) -> dict[str, Any]:
        """Return what an act says of what was asked for."""
        return {
            "criterion": chosen.criterion,
            "answers": answers,
            "reason": answers.get("reason"),
            "command": "\n".join(self.commands(action, chosen, answers)),
        }

    def _do_in_background(
        self, action: MessageAction, answers: Mapping[str, Any], request: HttpRequest, chosen: Selection
    ) -> HttpResponse:
        """Begin an operation on all that match the filters of the list, and show its page."""
        if not self.is_described_by_url(request):
            words = _(
                "Nothing was done: operations in the background do not know a filter of this list. "
                "Filter it to %(limit)s messages or fewer, or select some."
            )
            self.message_user(request, words % {"limit": LIMIT}, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        filters = criteria.known(request.GET.dict())
        expected, is_complete = chosen.count(COUNT_LIMIT)
        act = self.new_act(request, action.name, **self._described(action, answers, chosen))
        operation = runner.begin(action, filters, answers, act=act, expected=expected)
        sentence = _("%(action)s: begun for all that match, some %(count)s messages.") % {
            "action": action.label,
            "count": LOCAL.bounded(operation.expected, more=not is_complete),
        }
        recorder.told(act, sentence, using=alias())
        report.log_operation(request, operation, sentence)
        self.message_user(request, sentence, messages.SUCCESS)
        if not self.may(request, "view_operation"):
            return HttpResponseRedirect(request.get_full_path())
        return HttpResponseRedirect(self.page_address(Operation, operation.pk))
