"""Read the results from the index and the dead letters."""

from __future__ import annotations

from collections import defaultdict

from django_mq.api import browse
from django_mq.models import Attempt

from library.analysis import Facts
from library.demo.outcomes import NAMES, DeadLetter, Outcomes, Totals
from library.models import Import, SourceFile, Summary


def stored_outcomes() -> Outcomes:
    """Return what the rows say of each file. A file that is still open has no facts yet."""
    modules: defaultdict[int, list[str]] = defaultdict(list)
    for source_id, module in Import.objects.values_list("source_id", "module"):
        modules[source_id].append(module)
    return {
        file.path: None if file.status == SourceFile.Status.BROKEN else facts_of(file, modules[file.pk])
        for file in SourceFile.objects.all()
    }


def facts_of(file: SourceFile, modules: list[str]) -> Facts:
    """Return a row as the analysis would."""
    return Facts(
        lines=file.lines,
        tokens=file.tokens,
        comments=file.comments,
        functions=file.functions,
        classes=file.classes,
        imports=tuple(sorted(modules)),
    )


def stored_totals() -> Totals:
    """Return the totals that the closing message wrote."""
    summary = Summary.objects.get()
    return Totals(**{name: getattr(summary, name) for name in NAMES})


def dead_letters() -> list[DeadLetter]:
    """Return the dead letters of the index, by path, with the traceback of the last recorded attempt."""
    task_ids = [letter.correlation_id for letter in browse("index.dead")]
    attempts: defaultdict[str | None, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.filter(correlation_id__in=task_ids).order_by("pk"):
        attempts[attempt.correlation_id].append(attempt)
    files = SourceFile.objects.filter(task_id__in=task_ids)
    return [dead_letter(file, attempts[str(file.task_id)]) for file in files]


def dead_letter(file: SourceFile, attempts: list[Attempt]) -> DeadLetter:
    """Return the dead letter of a file."""
    traceback = attempts[-1].traceback if attempts else ""
    return DeadLetter(file.path, file.error, len(attempts), traceback)
