"""List workflows, show the steps of one, and retry, cancel or delete some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.errors import MQError
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import UsageError, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.workflows.models import StepRun, WorkflowRun
from django_mq.workflows.verbs import cancel_workflow, delete_workflow, found_id, retry_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: How many are listed by default.
MOST = 100
STATES = [str(state.value) for state in WorkflowRun.Status]
ACTIONS = ("list", "show", "retry", "cancel", "delete")


class Command(MQCommand):
    help = (
        "List workflows, the newest first, or show the steps of some. Or retry, cancel or delete those that are "
        "named by their ids: a retry runs again what has not succeeded."
    )
    exit_codes: ClassVar = {1: "refused, or not every workflow could be done"}
    arguments: ClassVar = (
        argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list"),
        argument("names", metavar="ID", nargs="*", help="Which ones to show, retry, cancel or delete."),
        argument("--name", metavar="NAME", help="List only workflows of this name."),
        argument("--state", choices=STATES, help="List only workflows in this state."),
        argument("--limit", type=at_least_one, metavar="N", default=MOST, help="At most so many; default: 100."),
        argument("--reason", default="", help="Why to cancel, shown in the admin and here."),
    )
    json = "a JSON array of what is listed, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        action, names = options["action"], list(dict.fromkeys(options["names"]))
        if bool(names) != (action != "list"):
            raise UsageError(f"{action} takes {'the ids of workflows' if not names else 'no ids'}.")
        if action == "list":
            self._list(alias, options)
        elif action == "show":
            self._show(alias, names)
        else:
            self._steer(alias, action, names, options["reason"])

    def _list(self, alias: str, options: Mapping[str, Any]) -> None:
        rows = WorkflowRun.objects.using(alias).defer("graph", "input")
        chosen = {field: options[field] for field in ("name", "state") if options[field]}
        found = list(rows.filter(**chosen)[: options["limit"]])
        lines = [
            (str(run), run.state, _progress(run), PLAIN.time(run.created_at), str(run.pk), run.reason)
            for run in found
        ]
        text = (
            table(("WORKFLOW", "STATE", "STEPS", "STARTED", "ID", ""), lines)
            if lines
            else "There are no workflows."
        )
        self.answer([_object(run) for run in found], text)

    def _show(self, alias: str, names: list[str]) -> None:
        told, texts = [], []
        for name in names:
            run = WorkflowRun.objects.using(alias).defer("graph", "input").filter(pk=found_id(name)).first()
            if run is None:
                raise CommandError(f"There is no workflow {name}; mq_workflows lists them.")
            steps = list(StepRun.objects.using(alias).filter(run=run).defer("result", "item").order_by("id"))
            told.append(_object(run) | {"steps": [_step(step) for step in steps]})
            rows = [(str(step), step.state, str(step.message_id or ""), step.reason) for step in steps]
            head = f"{run}: {run.state}, {_progress(run)}. {run.reason}".strip()
            texts.append(f"{head}\n{table(('STEP', 'STATE', 'MESSAGE', ''), rows)}")
        self.answer(told, "\n\n".join(texts))

    def _steer(self, alias: str, action: str, names: list[str], reason: str) -> None:
        verbs: dict[str, tuple[Callable[..., None], str]] = {
            "retry": (retry_workflow, "retried"),
            "cancel": (cancel_workflow, "cancelled"),
            "delete": (delete_workflow, "deleted"),
        }
        verb, word = verbs[action]
        done, left = [], {}
        for name in names:
            try:
                verb(name, using=alias, **({"reason": reason} if action == "cancel" else {}))
            except MQError as error:
                left[name] = str(error)
            else:
                done.append(name)
        self.note(alias, "workflowrun", action, done, reason=reason)
        self.answer({word: done, "left": left}, f"{plural(len(done), 'workflow')} {word}.")
        if left:
            if not self.as_json:
                self.stderr.write("\n".join(left.values()))
            raise SystemExit(1)


def _progress(run: WorkflowRun) -> str:
    if run.step_count is None:
        return f"{PLAIN.number(run.open_steps)} have not ended"
    return f"{PLAIN.number(run.step_count - run.open_steps)} of {PLAIN.number(run.step_count)}"


def _object(run: WorkflowRun) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "name": run.name,
        "key": run.label or None,
        "state": run.state,
        "reason": run.reason,
        "step_count": run.step_count,
        "open_steps": run.open_steps,
        "started_at": run.created_at.isoformat(),
        "ended_at": run.ended_at and run.ended_at.isoformat(),
    }


def _step(step: StepRun) -> dict[str, Any]:
    return {
        "name": step.name,
        "number": None if step.number < 0 else step.number,
        "state": step.state,
        "reason": step.reason,
        "message_id": step.message_id and str(step.message_id),
        "ended_at": step.ended_at and step.ended_at.isoformat(),
    }
