"""What the end of a message means for its step, in the transaction in which the message ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.ends import End
from django_mq.engine.decisions.workflows import FAULTS, StepState, WorkflowState, ended_items
from django_mq.seams.extension import Listening
from django_mq.workflows.graphs import graph_in
from django_mq.workflows.locked import TOLD, LockedRun, finish_steps
from django_mq.workflows.statements import StepStatements
from django_mq.workflows.values import written_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django_mq.engine.decisions.ends import Ended
    from django_mq.stores.base import Store
    from django_mq.workflows.statements import StepRow

logger = logging.getLogger("django_mq.workflows")

#: What ends a step, and how.
STATES: Final = {
    End.ACCEPTED: StepState.SUCCEEDED,
    End.DEAD: StepState.FAILED,
    End.EXPIRED: StepState.FAILED,
    End.REPLACED: StepState.FAILED,
    End.CANCELLED: StepState.CANCELLED,
    End.PURGED: StepState.CANCELLED,
}
#: What stands in a step whose message was removed.
REASONS: Final = {
    End.EXPIRED: "The message expired.",
    End.REPLACED: "Another message has replaced the message.",
    End.CANCELLED: "The message was cancelled.",
    End.PURGED: "The message was purged.",
}
UNDOING: Final = frozenset({StepState.COMPENSATING, StepState.COMPENSATED, StepState.STUCK})


class StepEnd(NamedTuple):
    """How the message of a step has ended."""

    state: StepState
    result: str | None
    reason: str
    queue: str


def tell(store: Store, ended: Sequence[Ended]) -> None:
    """Write the ends of steps, and begin what they let begin. Raises StoreError."""
    if not store.features.durable:
        return
    statements = StepStatements(store)
    ends = _ends(statements, ended)
    steps = statements.of_messages([*ends])
    locked: dict[UUID, list[StepRow]] = {}
    counted: dict[tuple[UUID, UUID, str], list[int]] = {}
    for step in steps:
        end = ends[_message_of(step)]
        state = None
        if step.number >= 0 and step.state is StepState.READY:
            state = statements.end_step(step, end.state, end.result, end.reason)
        if state is None:
            locked.setdefault(step.root, []).append(step)
        elif state is not StepState.HELD:
            numbers = counted.setdefault((step.root, step.run_id, step.name), [0, 0])
            numbers[0] += 1
            numbers[1] += state is not StepState.SUCCEEDED
    # Each in one order, so that no two transactions wait for each other; see LockedRun for the topmost rows.
    whole: dict[UUID, list[StepRow]] = {}
    for (root, run_id, name), (number, failed) in sorted(counted.items(), key=lambda each: str(each[0])):
        step_of_items = statements.count_items(run_id, name, number, failed)
        if step_of_items is not None:
            whole.setdefault(root, []).append(step_of_items)
    for root in sorted(locked.keys() | whole.keys(), key=str):
        statements.lock(root)
        _go_on(statements, whole.get(root, []), locked.get(root, []), ends)


def _message_of(step: StepRow) -> UUID:
    assert step.message_id is not None  # noqa: S101 - it was found by it
    return step.message_id


def _ends(statements: StepStatements, ended: Sequence[Ended]) -> dict[UUID, StepEnd]:
    """Return how messages have ended, by id."""
    dead = [each.message_id for each in ended if each.end is End.DEAD]
    reasons = statements.dead_reasons(dead) if dead else {}
    return {each.message_id: _end(each, reasons.get(each.message_id, "")) for each in ended}


def _end(each: Ended, dead_reason: str) -> StepEnd:
    state = STATES[each.end]
    result = written_json(each.returned) if state is StepState.SUCCEEDED else None
    return StepEnd(state, result, REASONS.get(each.end, dead_reason), each.queue)


def _go_on(
    statements: StepStatements, whole: Sequence[StepRow], steps: Sequence[StepRow], ends: dict[UUID, StepEnd]
) -> None:
    """Write the ends of steps of a workflow that is locked."""
    finished = [(step, ended_items(step.failed)) for step in whole if step.state is StepState.READY]
    for old in steps:
        step = statements.step(old.id)
        if step is None or step.message_id != old.message_id:
            continue
        end = ends[_message_of(step)]
        if step.state is StepState.READY:
            state = statements.end_step(step, end.state, end.result, end.reason)
            if state is not None and state is not StepState.HELD:
                finished.append((step._replace(state=state), state))
        elif step.state is StepState.COMPENSATING:
            _undone(statements, step, end)
        elif step.state in FAULTS and end.state is StepState.SUCCEEDED:
            finish_steps(statements, finished)
            finished = []
            _late(statements, step, end)
    finish_steps(statements, finished)


def _undone(statements: StepStatements, step: StepRow, end: StepEnd) -> None:
    run = statements.run(step.run_id)
    if run is not None:
        state = StepState.COMPENSATED if end.state is StepState.SUCCEEDED else StepState.STUCK
        LockedRun(statements, run).compensated(step, state, end.reason)


def _late(statements: StepStatements, step: StepRow, end: StepEnd) -> None:
    """Go on after a dead letter that an operator has redriven, and that was handled then."""
    run = statements.run(step.run_id)
    if run is None or run.state not in {WorkflowState.RUNNING, WorkflowState.FAILED}:
        return
    is_over = run.state is WorkflowState.FAILED and run.parent_id is not None
    undone = UNDOING & set(statements.states(run.id).values())
    if is_over or undone or graph_in(run.graph).by_name[step.name].queue != end.queue:
        logger.info("The step %s of workflow %s has succeeded too late", step.name, run.id)
        return
    ended_at = statements.now()
    statements.write_step(
        step.id, state=StepState.SUCCEEDED.value, result=end.result, reason="", ended_at=ended_at
    )
    if step.number >= 0:
        [whole] = statements.steps(run.id, [step.name])
        left = whole.failed - 1
        statements.write_step(whole.id, failed=left)
        if left or whole.state is not StepState.FAILED:
            return
        statements.write_step(whole.id, state=StepState.SUCCEEDED.value, ended_at=ended_at)
    LockedRun(statements, run).reopen(step.name)


def end_locked(statements: StepStatements, root: UUID, step_id: int, message_id: UUID, end: StepEnd) -> None:
    """Write the end of a step whose message is gone, unless it has ended meanwhile."""
    statements.lock(root)
    step = statements.step(step_id)
    if step is not None and step.message_id == message_id:
        _go_on(statements, [], [step], {message_id: end})


LISTENING: Final = Listening(name=TOLD, ends=frozenset(STATES), wants=None, tell=tell, returns=True)
