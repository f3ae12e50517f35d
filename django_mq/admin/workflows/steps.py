"""The steps of a workflow, and their items, as its page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db.models import Case, Count, IntegerField, Value, When
from django.utils.translation import gettext as _

from django_mq.admin import columns
from django_mq.admin.addresses import message_address
from django_mq.admin.table import alias
from django_mq.admin.workflows.drawing import NodeKind
from django_mq.admin.workflows.picture import Drawable
from django_mq.diagnosis.language import exact
from django_mq.engine.decisions.workflows import StepState
from django_mq.models import Message
from django_mq.workflows.graphs import graph_in
from django_mq.workflows.models import StepRun, WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from django_mq.admin.table import TableAdmin
    from django_mq.engine.decisions.workflows import StepRule

#: The most steps, items and sub-workflows that the page lists.
MOST_SHOWN: Final = 100
KINDS: Final = {
    StepState.WAITING: NodeKind.WAITING,
    StepState.READY: NodeKind.GOING,
    StepState.HELD: NodeKind.GOING,
    StepState.COMPENSATING: NodeKind.GOING,
    StepState.SUCCEEDED: NodeKind.DONE,
    StepState.FAILED: NodeKind.BAD,
    StepState.STUCK: NodeKind.BAD,
    StepState.CANCELLED: NodeKind.LEFT,
    StepState.SKIPPED: NodeKind.LEFT,
    StepState.BLOCKED: NodeKind.LEFT,
    StepState.COMPENSATED: NodeKind.LEFT,
}
#: What an operator looks at first.
ORDER: Final = (NodeKind.BAD, NodeKind.GOING, NodeKind.WAITING, NodeKind.LEFT, NodeKind.DONE)
#: Columns that may be large, which the page does not show.
LARGE: Final = ("result", "item")


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step, or an item, as the page shows it."""

    name: str
    #: The queue, or the sub-workflow.
    to: str
    after: tuple[str, ...]
    kind: NodeKind
    state: str
    reason: str
    address: str
    ended: str
    share: tuple[int, int] | None = None

    @property
    def drawable(self) -> Drawable:
        return Drawable(
            self.name, self.after, self.kind, self.state, self.reason, address=self.address, share=self.share
        )


class ShownSteps:
    """All that the page of a run says of its steps, in a bounded number of statements."""

    def __init__(self, page: TableAdmin, run: WorkflowRun, *, may_look: bool) -> None:
        self._page, self._run, self._may_look = page, run, may_look
        self._rows = StepRun.objects.using(alias()).filter(run=run).defer(*LARGE)

    def steps(self) -> list[ShownStep]:
        """Return the steps in the order of their declaration."""
        by_name = {step.name: step for step in self._rows.filter(number=-1)}
        items: dict[str, dict[str, int]] = {}
        counted = self._rows.filter(number__gte=0).order_by().values_list("name", "state").annotate(Count("pk"))
        for name, state, number in counted:
            items.setdefault(name, {})[state] = number
        going = [step for step in by_name.values() if step.state == StepState.READY.value]
        situations = _situations(going[:MOST_SHOWN])
        children = self._children()
        found = []
        for rule in graph_in(self._run.graph).rules:
            step = by_name.get(rule.name)
            if step is not None:
                address = children.get(step.pk, "")
                found.append(self._shown(step, rule, items.get(rule.name, {}), situations, address))
        return found

    def items(self) -> list[ShownStep]:
        """Return the items to look at: those that have not succeeded, and those that run."""
        order = Case(
            *(
                When(state=state.value, then=Value(ORDER.index(kind)))
                for state, kind in KINDS.items()
                if kind is not NodeKind.DONE
            ),
            default=Value(len(ORDER)),
            output_field=IntegerField(),
        )
        rows = self._rows.filter(number__gte=0).exclude(state=StepState.SUCCEEDED.value)
        chosen = list(rows.annotate(urgency=order).order_by("urgency", "id")[:MOST_SHOWN])
        situations = _situations([step for step in chosen if step.state == StepState.READY.value])
        rules = graph_in(self._run.graph).by_name
        return [self._shown(step, rules[step.name], {}, situations, "") for step in chosen]

    def children(self) -> Iterator[dict[str, str]]:
        """Yield the sub-workflows, the first ones."""
        rows = WorkflowRun.objects.using(alias()).filter(parent__run=self._run).select_related("parent")
        for child in rows.defer("graph", "input", "parent__result", "parent__item").order_by("created_at", "id")[
            :MOST_SHOWN
        ]:
            yield {
                "address": self._page.page_address(WorkflowRun, child.pk),
                "name": str(child),
                "step": str(child.parent),
                "state": str(child.get_state_display()),
            }

    def _children(self) -> dict[int, str]:
        """Return the page of the sub-workflow of each step that is one."""
        rows = WorkflowRun.objects.using(alias()).filter(parent__run=self._run, parent__number=-1)
        found = rows.order_by("created_at", "id").values_list("parent", "pk")[:MOST_SHOWN]
        return {parent: self._page.page_address(WorkflowRun, pk) for parent, pk in found if parent is not None}

    def _shown(
        self,
        step: StepRun,
        rule: StepRule,
        items: Mapping[str, int],
        situations: Mapping[UUID | None, str],
        address: str,
    ) -> ShownStep:
        total = sum(items.values())
        done = items.get(StepState.SUCCEEDED.value, 0) + items.get(StepState.COMPENSATED.value, 0)
        if not address and self._may_look:
            address = message_address(self._page, step.message_id)
        kind = _kind(step)
        bad = sum(number for state, number in items.items() if KINDS[StepState(state)] is NodeKind.BAD)
        if bad and kind is NodeKind.GOING:
            kind = NodeKind.BAD
        return ShownStep(
            name=str(step),
            to=rule.queue or rule.workflow,
            after=rule.after if step.number < 0 else (),
            kind=kind,
            state=_words(step, done, bad, total, situations),
            reason=step.reason,
            address=address,
            ended="-" if step.ended_at is None else columns.ago(step.ended_at),
            share=(done, total) if total else None,
        )


def most_urgent(steps: Sequence[ShownStep]) -> list[ShownStep]:
    """Return the steps to list: all of them in their order, or those that an operator looks at first."""
    if len(steps) <= MOST_SHOWN:
        return list(steps)
    return sorted(steps, key=lambda step: ORDER.index(step.kind))[:MOST_SHOWN]


def _kind(step: StepRun) -> NodeKind:
    state = StepState(step.state)
    # A message that an operator has removed makes its workflow fail.
    is_fault = state is StepState.CANCELLED and step.message_id is not None
    return NodeKind.BAD if is_fault else KINDS[state]


def _words(step: StepRun, done: int, bad: int, total: int, situations: Mapping[UUID | None, str]) -> str:
    label = situations.get(step.message_id) or str(step.get_state_display())
    if not total:
        return label
    found = _("%(state)s, %(done)s of %(total)s") % {"state": label, "done": exact(done), "total": exact(total)}
    return _("%(words)s, %(failed)s failed") % {"words": found, "failed": exact(bad)} if bad else found


def _situations(steps: Sequence[StepRun]) -> dict[UUID | None, str]:
    """Return the states of the messages of steps, in words: "published" says less."""
    ids = [step.message_id for step in steps if step.message_id is not None]
    rows = Message.objects.using(alias()).filter(message_id__in=ids)
    return {message.message_id: str(message.get_state_display()) for message in rows.only("message_id", "state")}
