"""The page of one of Celery's chains, groups or chords: its tasks as a graph, and what a chord waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin import helpers
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin.addresses import LONGEST, ROOT, message_address
from django_mq.admin.messages.actions import REDRIVE
from django_mq.admin.messages.life import viewable
from django_mq.admin.paginator import NUL
from django_mq.admin.table import alias
from django_mq.admin.workflows.drawing import NodeKind
from django_mq.admin.workflows.picture import Drawable, picture_of
from django_mq.diagnosis.language import exact
from django_mq.models import History, Message
from django_mq.results.canvas import TaskState, canvas_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.results.canvas import Canvas, CanvasChord, CanvasTask

#: The most tasks that the page lists, and that are named as what a chord waits for.
MOST_LISTED, MOST_NAMED = 100, 3
KINDS: Final = {
    TaskState.WAITING: NodeKind.WAITING,
    TaskState.RUNNING: NodeKind.GOING,
    TaskState.SUCCEEDED: NodeKind.DONE,
    TaskState.FAILED: NodeKind.BAD,
    TaskState.REMOVED: NodeKind.LEFT,
    TaskState.DEAD: NodeKind.BAD,
}
WORDS: Final = {
    TaskState.WAITING: gettext_lazy("waiting"),
    TaskState.RUNNING: gettext_lazy("running"),
    TaskState.SUCCEEDED: gettext_lazy("succeeded"),
    TaskState.FAILED: gettext_lazy("failed"),
    TaskState.REMOVED: gettext_lazy("removed"),
    TaskState.DEAD: gettext_lazy("dead letter"),
}
#: What an operator looks at first.
ORDER: Final = (TaskState.DEAD, TaskState.FAILED, TaskState.RUNNING, TaskState.WAITING)


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the tasks that the first task has begun, of those that the user may see."""
    root = request.GET.get(ROOT, "").replace(NUL, "").strip()[:LONGEST]
    canvas = canvas_of(root, viewable(admin, request, Message), viewable(admin, request, History), using=alias())
    context: dict[str, Any] = {"root": root, "is_cut": canvas.is_cut}
    if canvas.tasks:
        context |= _shown(admin, canvas)
        dead = [task.row_id for task in canvas.tasks if task.row_id is not None]
        if dead and admin.may(request, REDRIVE.permission):
            context |= {
                "dead": dead,
                "redrive": REDRIVE,
                "redrive_address": admin.list_address(Message),
                "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
            }
    return admin.page(request, "message/canvas", _("Tasks of a chain, a group or a chord"), **context)


def _shown(admin: TableAdmin, canvas: Canvas) -> dict[str, Any]:
    numbered = _names(canvas)
    tasks = [_drawable(admin, canvas, task, numbered) for task in canvas.tasks]
    joins = [_join(canvas, chord, numbered) for chord in canvas.chords.values()]
    order = {state: place for place, state in enumerate(ORDER)}
    urgent = sorted(canvas.tasks, key=lambda task: order.get(task.state, len(order)))[:MOST_LISTED]
    by_name = {each.name: each for each in tasks}
    return {
        "graph": picture_of([*tasks, *joins]),
        "joins": joins,
        "lines": [(by_name[numbered[task.id]], task.queue, task.published_at) for task in urgent],
        "left": exact(len(tasks) - len(urgent)) if len(tasks) > len(urgent) else "",
    }


def _names(canvas: Canvas) -> dict[str, str]:
    """Return what to call each task and chord: tasks of one name are told apart by numbers."""
    seen: dict[str, int] = {}
    found: dict[str, str] = {}
    for task in canvas.tasks:
        short = task.name.rpartition(".")[2] or task.name
        seen[short] = seen.get(short, 0) + 1
        found[task.id] = short if seen[short] == 1 else f"{short} {seen[short]}"
    for number, group in enumerate(canvas.chords, 1):
        found[group] = _("chord") if number == 1 else f"{_('chord')} {number}"
    return found


def _drawable(admin: TableAdmin, canvas: Canvas, task: CanvasTask, names: dict[str, str]) -> Drawable:
    before = names.get(canvas.before(task), "")
    return Drawable(
        name=names[task.id],
        after=[before] if before else [],
        kind=KINDS[task.state],
        words=str(WORDS[task.state]),
        more=f"{task.name} {task.id}",
        address=message_address(admin, task.message_id),
    )


def _join(canvas: Canvas, chord: CanvasChord, names: dict[str, str]) -> Drawable:
    members = [names[task.id] for task in canvas.tasks if task.group == chord.group]
    size = exact(chord.size) if chord.size is not None else "?"
    words = _("%(ended)s of %(total)s have ended") % {"ended": exact(chord.counted), "total": size}
    kind = NodeKind.DONE if chord.ended_at is not None else NodeKind.WAITING
    return Drawable(
        name=names[chord.group],
        after=members,
        kind=NodeKind.BAD if chord.failed else kind,
        words=words,
        more=" ".join(_blocked(canvas, chord, names)),
        share=(chord.counted, chord.size or 0) if chord.size else None,
    )


def _blocked(canvas: Canvas, chord: CanvasChord, names: dict[str, str]) -> Iterator[str]:
    """Yield what a chord waits for, in words."""
    blocking = canvas.blocking(chord.group) if chord.ended_at is None else []
    if blocking:
        named = ", ".join(f"{names[task.id]} ({WORDS[task.state]})" for task in blocking[:MOST_NAMED])
        more = len(blocking) - MOST_NAMED
        yield _("It waits for %(tasks)s.") % {"tasks": f"{named}, … +{exact(more)}" if more > 0 else named}
    if chord.failed:
        yield _("%(number)s of its members have failed: its body does not run.") % {"number": exact(chord.failed)}
