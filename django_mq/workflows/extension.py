"""How workflows enter: they are told the ends of their messages, and have duties and a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_mq.seams.extension import Duty, Extension, Panel
from django_mq.workflows import duty
from django_mq.workflows.ends import LISTENING
from django_mq.workflows.models import StepRun

if TYPE_CHECKING:
    from typing import Any

    from django.http import HttpRequest


def show(request: HttpRequest, message: Any) -> str:
    """Return of which workflow, and which step, a message is, to users with the permission to view workflows."""
    if not request.user.has_perm("django_mq.view_workflowrun"):
        return ""
    steps = StepRun.objects.using(message._state.db).select_related("run").defer("run__graph")  # noqa: SLF001 - Django's public habit
    step = steps.filter(message_id=message.message_id).first()
    if step is None:
        return ""
    words = _("step %(step)s of workflow %(workflow)s: %(state)s") % {
        "step": step,
        "workflow": step.run,
        "state": step.get_state_display(),
    }
    try:
        address = reverse("admin:django_mq_workflowrun_change", args=[step.run_id])
    except NoReverseMatch:
        return words
    return format_html('<a href="{}">{}</a>', address, words)


EXTENSION: Final = Extension(
    name="workflows",
    settings=(duty.DAYS,),
    ends=(LISTENING,),
    duties=(
        Duty(name="deadlines", run=duty.stop_late, limit=100, interval_seconds=5, leader_only=True),
        Duty(name="mend", run=duty.mend, limit=100, interval_seconds=60, leader_only=True, announces=True),
        Duty(name="prune", run=duty.prune, limit=20, interval_seconds=300, leader_only=True),
    ),
    panels=tuple(Panel(page=page, title=_("Workflow"), content=show) for page in ("message", "history")),
)
