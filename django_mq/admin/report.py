"""The sentence at the end of an action (how many messages changed, and why others did not), and log entries."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.acts import recorder
from django_mq.acts.operators import of_site
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, exact, time_text
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Message, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from django.db.models import Model
    from django.http import HttpRequest

    from django_mq.admin.messages.actions import MessageAction
    from django_mq.admin.messages.selection import Selection
    from django_mq.diagnosis.state.overview import QueueState

#: The most message ids in a log entry.
LOGGED_IDS = 100


def told(action: MessageAction, answers: Mapping[str, Any], chosen: Selection, changed: int) -> str:
    head = ngettext(
        "%(done)s: %(changed)s of %(asked)s message.", "%(done)s: %(changed)s of %(asked)s messages.", chosen.asked
    )
    words = {"done": str(action.done) % _shown(answers)}
    words |= {"changed": exact(changed), "asked": exact(chosen.asked)}
    sentences = [head % words]
    reasons = list(_reasons(action, chosen, changed))
    if reasons:
        sentences.append(_("Left alone: %s.") % ", ".join(reasons))
    return " ".join(sentences)


def _shown(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers as pages show them."""
    return {name: time_text(value) if isinstance(value, datetime) else value for name, value in answers.items()}


def _reasons(action: MessageAction, chosen: Selection, changed: int) -> Iterator[str]:
    """Yield why messages were not changed."""
    unfit = {state: count for state, count in chosen.states.items() if state not in action.states}
    for state, count in sorted(unfit.items()):
        yield _state_reason(state, count)
    left = chosen.asked - len(chosen.messages)
    if left:
        reason = ngettext("%(count)s is no longer there", "%(count)s are no longer there", left)
        yield reason % {"count": exact(left)}
    other = len(chosen.messages) - sum(unfit.values()) - changed
    if other > 0:
        reason = ngettext(
            "%(count)s was so before, or changed meanwhile",
            "%(count)s were so before, or changed meanwhile",
            other,
        )
        yield reason % {"count": exact(other)}


def _state_reason(state: int, count: int) -> str:
    words = {"count": exact(count)}
    if state == Message.Status.CLAIMED:
        reason = ngettext(
            "%(count)s is held by a worker, and what has begun is not interrupted",
            "%(count)s are held by workers, and what has begun is not interrupted",
            count,
        )
        return reason % words
    words["state"] = str(Message.Status(state).label)
    return ngettext("%(count)s is %(state)s", "%(count)s are %(state)s", count) % words


def obstacles(states: Iterable[QueueState]) -> str:
    """Return why dead letters that return to these queues are not delivered."""
    paused = _("“%(queue)s” is paused: messages that return to it wait until it resumes.")
    full = _("“%(queue)s” is full: messages that do not fit stay where they are.")
    return " ".join((paused if state.paused else full) % {"queue": state.name} for state in states)


def log(request: HttpRequest, chosen: Selection, sentence: str, *, which: str = "", name: str = "") -> None:
    """Write a log entry about these messages, with their ids or with ``which``. A single message is linked.

    What was chosen by "select all" also has the filters of the list.
    """
    which = which or ", ".join(str(message.message_id) for message in chosen.messages[:LOGGED_IDS])
    if chosen.filters is not None and not chosen.cut:
        which = f"{json.dumps({'filters': chosen.filters})} {which}"
    alone = chosen.messages[0] if len(chosen.messages) == 1 else None
    count = len(chosen.messages)
    words = {"count": exact(count)}
    name = str(alone.message_id) if alone else name or _messages(count) % words
    _write(request.user, Message, CHANGE, name, f"{sentence} {which}", row_id=alone and alone.id)


def _messages(count: int) -> str:
    return ngettext("%(count)s message", "%(count)s messages", count)


def log_download(request: HttpRequest, chosen: Selection, form: str) -> None:
    """Log a download as an act, and with the ids of the messages, or with the filters if there are too many."""
    number, count, which = len(chosen.messages), exact(len(chosen.messages)), ""
    if chosen.cut:
        number, is_complete = chosen.count(COUNT_LIMIT)
        count = LOCAL.bounded(number, more=not is_complete)
        which = json.dumps({"filters": chosen.filters})
    words = ngettext(
        "Downloaded as %(form)s: %(count)s message.", "Downloaded as %(form)s: %(count)s messages.", number
    )
    sentence = words % {"form": form, "count": count}
    log(request, chosen, sentence, which=which, name=sentence)
    _note(request, "download", sentence, criterion=chosen.criterion, answers={"form": form})


def log_operation(request: HttpRequest, operation: Operation, sentence: str) -> None:
    """Log the begin of an operation, with its filters and answers."""
    asked = json.dumps({"filters": operation.filters, "answers": operation.answers})
    _write(request.user, Operation, ADDITION, str(operation), f"{sentence} {asked}", row_id=operation.pk)


def log_end(operation: Operation, user: Any, error: str) -> None:
    """Log the end of an operation. Without its user there is no entry."""
    if user is not None:
        asked = json.dumps({"filters": operation.filters, "answers": operation.answers})
        sentence = " ".join(
            filter(None, [f"{operation.get_status_display()}: {progress(operation)}.", error, asked])
        )
        _write(user, Operation, CHANGE, str(operation), sentence, row_id=operation.pk)


def progress(operation: Operation) -> str:
    return _("%(changed)s changed, %(tried)s of %(expected)s tried") % {
        "changed": exact(operation.changed),
        "tried": exact(operation.tried),
        "expected": exact(max(operation.expected, operation.tried)),
    }


def log_published(request: HttpRequest, message_id: str, sentence: str) -> None:
    _write(request.user, Message, ADDITION, message_id, sentence)
    _note(request, "publish", sentence, about=message_id, count=1)


def _note(request: HttpRequest, name: str, sentence: str, **values: Any) -> None:
    """Write an act on messages that is done."""
    act = recorder.new_act(of_site(request.user.get_username()), "message", name, sentence=sentence, **values)
    recorder.write(act, using=alias())


def _write(user: Any, model: type[Model], flag: int, name: str, words: str, *, row_id: int | None = None) -> None:
    LogEntry.objects.create(
        user_id=user.pk,
        content_type_id=get_content_type_for_model(model).pk,
        object_id=None if row_id is None else str(row_id),
        object_repr=name[:200],
        action_flag=flag,
        change_message=words,
    )
