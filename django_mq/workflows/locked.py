"""A run whose rows are locked: how its steps begin and end, how it ends, is undone, and is run again.

The lock is that of the topmost workflow. A transaction that has it waits for no message: what has to change
messages that exist is done after the commit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from django_mq.delivery import hints
from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.publisher import OutgoingMessage, append, check, fair_queues, passed, with_headers
from django_mq.engine.decisions.workflows import (
    DONE,
    FAULTS,
    OPEN,
    Graph,
    StepState,
    WorkflowState,
    advance,
    again,
    begin,
    begun,
    ended_items,
    next_to_undo,
    outcome,
)
from django_mq.errors import MQError, UnknownWorkflow, WrongWorkflow, shown
from django_mq.stores.records import headers_in
from django_mq.workflows.graphs import graph_in, version_of
from django_mq.workflows.registry import declared
from django_mq.workflows.results import Results
from django_mq.workflows.values import value_in, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from django_mq.engine.decisions.workflows import StepRule
    from django_mq.stores.records import NewMessage
    from django_mq.workflows.declared import WorkflowDeclaration, WorkflowStep
    from django_mq.workflows.statements import RunRow, StepRow, StepStatements

logger = logging.getLogger("django_mq.workflows")

#: The name of the listening, in the rows of messages.
TOLD: Final = "workflows"
#: Headers of the message of a step.
WORKFLOW_HEADER, STEP_HEADER = "mq_workflow", "mq_step"
#: Any error of the functions of a declaration, and of publishing, is one of the step.
AnyError = Exception


@dataclass(slots=True)
class Begun:
    """What the beginning of a step writes."""

    state: StepState
    waits: int = 0
    message_id: UUID | None = None
    items: int | None = None
    reason: str = ""
    #: The messages to publish, and the rows of items.
    messages: list[NewMessage] = field(default_factory=list)
    rows: list[tuple[str, int, str, int, str | None, UUID | None]] = field(default_factory=list)
    #: The sub-workflow to start, with the input of each: that of the step, or of an item.
    workflow: str = ""
    inputs: list[tuple[int, Any]] = field(default_factory=list)


@dataclass
class LockedRun:
    """A run that is locked. It is what ``engine.decisions.workflows`` calls the progress of a workflow."""

    statements: StepStatements
    row: RunRow
    #: Whether an error of a step is raised: then nothing has begun. Otherwise the step fails.
    raises: bool = False
    #: The states of steps that have just been written.
    known: Mapping[str, StepState] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return graph_in(self.row.graph)

    @property
    def goes_on(self) -> bool:
        return self.row.state is WorkflowState.RUNNING

    # The progress.

    def lower(self, waits: Mapping[str, int]) -> Collection[str]:
        return self.statements.lower(self.row.id, dict(waits)) if waits else []

    def states(self, names: Collection[str]) -> Mapping[str, StepState]:
        unknown = [name for name in names if name not in self.known]
        found = self.statements.states(self.row.id, unknown) if unknown else {}
        return {name: found[name] if name in found else self.known[name] for name in names}

    def settle(self, states: Mapping[str, StepState]) -> None:
        by_state: dict[StepState, list[str]] = {}
        for name, state in states.items():
            by_state.setdefault(state, []).append(name)
        for state, names in by_state.items():
            self.statements.write_steps(self.row.id, names, state=state.value, ended_at=self.statements.now())

    def start(self, names: Sequence[str]) -> dict[str, StepState]:
        so_far = Results(self.statements, self.row)
        found = {name: self._tried(self.graph.by_name[name], so_far) for name in names}
        together = [message for each in found.values() for message in each.messages]
        if together and not self._published(together):
            for each in found.values():
                if each.messages:
                    self._publish_alone(each)
        for name, each in found.items():
            self._write(name, each)
        at_once = {name: each.state for name, each in found.items() if each.state not in OPEN}
        for name, each in found.items():
            if each.workflow:
                state = self._start_children(name, each)
                if state is not None:
                    at_once[name] = state
        return at_once

    # How a step begins.

    def _tried(self, rule: StepRule, so_far: Results) -> Begun:
        """Return how a step begins; an error of a function of the project makes it fail."""
        try:
            return self._begun(rule, so_far)
        except AnyError as error:
            if self.raises:
                raise
            logger.warning("The step %s of workflow %s cannot begin: %r", rule.name, self.row.id, error)
            return Begun(StepState.FAILED, reason=_words(error))

    def _begun(self, rule: StepRule, so_far: Results) -> Begun:
        step = self._declared(rule)
        if step is not None and step.when is not None and not step.when(so_far):
            return Begun(StepState.SKIPPED)
        if rule.for_each is None:
            return self._once(rule, step, so_far)
        return self._for_each(rule, step, so_far)

    def _once(self, rule: StepRule, step: WorkflowStep | None, so_far: Results) -> Begun:
        body = so_far.input if step is None or step.body is None else step.body(so_far)
        if rule.workflow:
            return Begun(StepState.HELD, waits=1, workflow=rule.workflow, inputs=[(-1, body)])
        message = self.message(rule, rule.queue, body)
        return Begun(StepState.READY, message_id=message.message_id, messages=[message])

    def _for_each(self, rule: StepRule, step: WorkflowStep | None, so_far: Results) -> Begun:
        items = step.items(so_far) if step is not None and step.items is not None else so_far[rule.for_each or ""]
        if not isinstance(items, list | tuple):
            raise WrongWorkflow(f"It runs for each item of {shown(items)}, which is no list; return a list.")
        self.statements.delete_items(self.row.id, rule.name)
        found = Begun(StepState.READY if items else StepState.SUCCEEDED, waits=len(items), items=len(items))
        for number, item in enumerate(items):
            message_id, state = None, StepState.HELD
            if rule.workflow:
                found.inputs.append((number, item))
            else:
                body = item if step is None or step.body is None else step.body(ItemResults(so_far, item))
                message = self.message(rule, rule.queue, body)
                found.messages.append(message)
                message_id, state = message.message_id, StepState.READY
            waits = 1 if rule.workflow else 0
            found.rows.append((rule.name, number, state.value, waits, written(item), message_id))
        found.workflow = rule.workflow if items else ""
        return found

    def _declared(self, rule: StepRule) -> WorkflowStep | None:
        """Return the step with its functions; None if it needs none. Raises UnknownWorkflow."""
        if not (rule.has_condition or rule.has_body or rule.for_each == "*"):
            return None
        step = declared(self.row.name).steps.get(rule.name)
        if step is None:
            raise UnknownWorkflow(f"The code of workflow {self.row.name!r} has no step {rule.name!r} any more.")
        return step

    def message(self, rule: StepRule, queue: str, body: Any) -> NewMessage:
        """Return the message of a step. Raises InvalidMessage."""
        options = dict(rule.options) if queue == rule.queue else {}
        own = {WORKFLOW_HEADER: str(self.row.id), STEP_HEADER: rule.name}
        options["headers"] = {**(options.get("headers") or {}), **own}
        checked = check(OutgoingMessage(queue=queue, body=body, message_id=new_message_id(), **options))
        fair = fair_queues(self.statements.store, [checked]).get(queue)
        if fair is not None:
            value = body.get(fair.header) if isinstance(body, dict) else getattr(body, fair.header, None)
            checked = with_headers(checked, fair.with_key(headers_in(checked.headers), value))
        return replace(checked, told_to=TOLD)

    def _published(self, messages: list[NewMessage]) -> bool:
        """Publish messages, or none; return whether they are published."""
        try:
            self.publish(messages)
        except MQError as error:
            if self.raises:
                raise
            logger.warning("Steps of workflow %s cannot be published together: %s", self.row.id, error)
            return False
        return True

    def publish(self, messages: list[NewMessage]) -> None:
        """Publish messages, or none. Raises MQError."""
        store = self.statements.store
        with self.statements.savepoint():
            found = passed(store, messages, lambda given: append(store, list(given)))
        hints.announce(found, store)

    def _publish_alone(self, begun: Begun) -> None:
        try:
            self.publish(begun.messages)
        except MQError as error:
            begun.state, begun.reason, begun.waits, begun.rows = StepState.FAILED, _words(error), 0, []
            begun.message_id = begun.items = None
            begun.messages = []

    def _write(self, name: str, begun: Begun) -> None:
        values: dict[str, Any] = {
            "state": begun.state.value,
            "waits": begun.waits,
            "failed": 0,
            "items": begun.items,
            "message_id": self.statements.uuid(begun.message_id),
            "reason": begun.reason[:255],
            "result": None,
        }
        if begun.state not in OPEN:
            values["ended_at"] = self.statements.now()
        self.statements.write_steps(self.row.id, [name], **values)
        if begun.rows:
            self.statements.insert_steps(self.row.id, begun.rows)

    # Sub-workflows.

    def _start_children(self, name: str, begun: Begun) -> StepState | None:
        """Start the sub-workflows of a step; return its state if it has ended at once."""
        [step] = self.statements.steps(self.row.id, [name])
        holders = (
            {each.number: each for each in self.statements.items(self.row.id, name)} if begun.rows else {-1: step}
        )
        ended = None
        for number, given in begun.inputs:
            holder = holders[number]
            try:
                with self.statements.savepoint():
                    start_child(self.statements, declared(begun.workflow), given, parent=holder)
            except AnyError as error:
                if self.raises:
                    raise
                ended = self._fail_holder(holder, error) or ended
        return ended

    def _fail_holder(self, holder: StepRow, error: Exception) -> StepState | None:
        """Write that a step, or an item, cannot begin; return the state of the step if it has ended by that."""
        logger.warning("The step %s of workflow %s cannot begin: %r", holder.name, self.row.id, error)
        ended = self.statements.now()
        self.statements.write_step(
            holder.id, state=StepState.FAILED.value, waits=0, reason=_words(error)[:255], ended_at=ended
        )
        if holder.number < 0:
            return StepState.FAILED
        step = self.statements.count_items(self.row.id, holder.name, 1, 1)
        if step is None:
            return None
        state = ended_items(step.failed)
        self.statements.write_step(step.id, state=state.value, ended_at=self.statements.now())
        return state

    # How it goes on.

    def begin(self) -> None:
        """Begin the first steps."""
        self._count(begin(self.graph, self))

    def ended(self, names: Collection[str]) -> None:
        """Go on after steps whose ends are written. The row is one that was read under the lock."""
        if names:
            self._count(advance(self.graph, names, self, goes_on=self.goes_on))

    def _count(self, ended: int) -> None:
        """Count steps that have ended, and end the run with the last one."""
        if ended:
            self.statements.count_open(self.row.id, -ended)
        self._refresh()
        if not self.row.open_steps and self.row.state in {WorkflowState.RUNNING, WorkflowState.STOPPING}:
            self._finish()

    def _refresh(self) -> None:
        row = self.statements.as_now(self.row)
        if row is not None:
            self.row = row

    def _finish(self) -> None:
        """End the run, or begin to undo it."""
        states = self.statements.states(self.row.id)
        stopped = self.row.outcome
        result = WorkflowState(stopped) if stopped else outcome(states.values(), was_stopped=False)
        if result is WorkflowState.SUCCEEDED:
            self._close(result)
            return
        if not self.row.reason:
            self.statements.write_run(self.row.id, reason=self._why(states)[:255])
        self.statements.write_run(self.row.id, outcome=result.value)
        self._refresh()
        self._undo_next(states)

    def _why(self, states: Mapping[str, StepState]) -> str:
        wrong = [name for name, state in states.items() if state in FAULTS]
        return f"{', '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}"

    def _close(self, state: WorkflowState) -> None:
        """Write that the run has ended, and tell the step that waits for it."""
        self.statements.write_run(
            self.row.id, state=state.value, outcome="", key_name=None, ended_at=self.statements.now()
        )
        self._refresh()
        if self.row.parent_id is not None:
            child_ended(self.statements, self.row.parent_id, failed=state is not WorkflowState.SUCCEEDED)

    # How it is undone.

    def _undo_next(self, states: Mapping[str, StepState]) -> None:
        """Publish the next compensation; if none is left, end the run."""
        partly = dict.fromkeys(self.statements.partly_succeeded(self.row.id), StepState.SUCCEEDED)
        name = next_to_undo(self.graph, {**states, **partly})
        if name is None:
            self._close(WorkflowState(self.row.outcome))
            return
        self.statements.write_run(self.row.id, state=WorkflowState.COMPENSATING.value)
        self._refresh()
        self.undo(name)

    def undo(self, name: str) -> None:
        """Publish the compensation of a step, one for each of its items that have succeeded."""
        rule, [step] = self.graph.by_name[name], self.statements.steps(self.row.id, [name])
        undone = [step]
        if step.items is not None:
            undone = [
                each
                for each in self.statements.items(self.row.id, name)
                if each.state in {StepState.SUCCEEDED, StepState.STUCK}
            ]
        if not undone:
            self.compensated(step, StepState.COMPENSATED)
            return
        try:
            body = value_in(self.row.input)
            messages = [
                self.message(rule, rule.compensate, body if each.item is None else value_in(each.item))
                for each in undone
            ]
            self.publish(messages)
        except MQError as error:
            self.compensated(step, StepState.STUCK, _words(error))
            return
        state = StepState.COMPENSATING.value
        self.statements.write_step(step.id, state=state, waits=len(undone), failed=0)
        for each, message in zip(undone, messages, strict=True):
            self.statements.write_step(each.id, state=state, message_id=self.statements.uuid(message.message_id))

    def compensated(self, step: StepRow, state: StepState, reason: str = "") -> None:
        """Go on after a compensation that has ended: with the next one, unless it has failed."""
        self.statements.write_step(step.id, state=state.value, reason=reason[:255])
        if step.number >= 0:
            whole = self.statements.count_items(self.row.id, step.name, 1, int(state is StepState.STUCK))
            if whole is None:
                return
            step, state = whole, StepState.STUCK if whole.failed else StepState.COMPENSATED
            self.statements.write_step(step.id, state=state.value)
        self._refresh()
        if state is StepState.STUCK:
            # The run has failed however it was to end: an operator has to look.
            self.statements.write_run(self.row.id, reason=f"{step.name} is not compensated: {reason}"[:255])
            self._close(WorkflowState.FAILED)
            return
        self._undo_next(self.statements.states(self.row.id))

    # How it is stopped, and run again.

    def stop(self, result: WorkflowState, reason: str) -> list[UUID]:
        """Begin nothing more; return the messages to cancel after the commit. The run ends as ``result``."""
        if self.row.state is not WorkflowState.RUNNING:
            return []
        self.statements.write_run(
            self.row.id, state=WorkflowState.STOPPING.value, outcome=result.value, reason=reason[:255]
        )
        found: list[UUID] = []
        steps = self.statements.steps(self.row.id, number=None)
        held = [step.id for step in steps if step.state in {StepState.HELD, StepState.READY}]
        children = [run for run in self.statements.runs_of(held) if run.state not in DONE]
        waiting = [step.name for step in steps if step.number < 0 and step.state is StepState.WAITING]
        self.settle(dict.fromkeys(waiting, StepState.CANCELLED))
        for child in children:
            found += LockedRun(self.statements, child).stop(result, reason)
        found += [
            step.message_id for step in steps if step.state is StepState.READY and step.message_id is not None
        ]
        self._count(len(waiting))
        return found

    def retry(self) -> list[UUID]:
        """Run again what has not succeeded; return dead letters that their new messages replace."""
        states = self.statements.states(self.row.id)
        redone = again(self.graph, states)
        never = {name for name, state in states.items() if state in {StepState.BLOCKED, StepState.CANCELLED}}
        never -= self.statements.with_messages(self.row.id)
        later = [name for name, waits in redone.waits.items() if waits]
        for name in later:
            self.statements.write_steps(
                self.row.id,
                [name],
                state=StepState.WAITING.value,
                waits=redone.waits[name],
                failed=0,
                ended_at=None,
            )
        self.statements.write_run(
            self.row.id, state=WorkflowState.RUNNING.value, outcome="", reason="", ended_at=None
        )
        self.statements.count_open(self.row.id, len(redone.waits))
        self._refresh()
        replaced: list[UUID] = []
        fresh = [name for name in redone.first if name in never]
        ended = begun(self.graph, fresh, self, goes_on=True)
        ended += [name for name in redone.first if name not in never and not self._again(name, replaced)]
        self._refresh()
        self.ended(ended)
        return replaced

    def _wait(self, name: str, waits: int) -> None:
        state = StepState.WAITING.value
        self.statements.write_steps(self.row.id, [name], state=state, waits=waits, failed=0, ended_at=None)

    def _again(self, name: str, replaced: list[UUID]) -> bool:
        """Run again what has not succeeded of a step, its items and sub-workflows; return whether it goes on."""
        [step] = self.statements.steps(self.row.id, [name])
        if step.message_id is not None:
            replaced.append(step.message_id)
        if not step.items:
            if not self._children_again(step, replaced):
                return not self.start([name])
            return True
        undone = [
            each for each in self.statements.items(self.row.id, name) if each.state is not StepState.SUCCEEDED
        ]
        self.statements.write_step(
            step.id, state=StepState.READY.value, waits=len(undone), failed=0, ended_at=None, reason=""
        )
        rule, so_far = self.graph.by_name[name], Results(self.statements, self.row)
        for each in undone:
            if each.message_id is not None:
                replaced.append(each.message_id)
            if not self._children_again(each, replaced):
                self._item_again(rule, each, so_far)
        found = self.statements.step(step.id)
        return found is None or found.state in OPEN

    def _item_again(self, rule: StepRule, item: StepRow, so_far: Results) -> None:
        try:
            step = self._declared(rule)
            given = value_in(item.item)
            if rule.workflow:
                self.statements.write_step(item.id, state=StepState.HELD.value, waits=1, failed=0)
                start_child(self.statements, declared(rule.workflow), given, parent=item)
                return
            body = given if step is None or step.body is None else step.body(ItemResults(so_far, given))
            message = self.message(rule, rule.queue, body)
            self.publish([message])
        except AnyError as error:
            self._fail_holder(item, error)
            return
        self.statements.write_step(
            item.id,
            state=StepState.READY.value,
            waits=0,
            failed=0,
            result=None,
            reason="",
            ended_at=None,
            message_id=self.statements.uuid(message.message_id),
        )

    def _children_again(self, step: StepRow, replaced: list[UUID]) -> bool:
        """Run the sub-workflows of a step again that have not succeeded; return whether there are some."""
        children = [
            each for each in self.statements.runs_of([step.id]) if each.state is not WorkflowState.SUCCEEDED
        ]
        if not children:
            return False
        self.statements.write_step(
            step.id, state=StepState.HELD.value, waits=len(children), failed=0, reason="", ended_at=None
        )
        for child in children:
            replaced += LockedRun(self.statements, child).retry()
        return True

    def reopen(self, name: str) -> None:
        """Go on after a step that had failed, and has succeeded after all; its end is written."""
        later = self.graph.after([name])
        states = self.statements.states(self.row.id)
        waiting = again(self.graph, {**states, name: StepState.FAILED}).waits
        blocked = [each for each in waiting if each in later]
        for each in blocked:
            redone = {name, *blocked}
            waits = sum(before in redone or states[before] in OPEN for before in self.graph.by_name[each].after)
            self._wait(each, waits)
        self.statements.count_open(self.row.id, len(blocked) + 1)
        self.statements.write_run(
            self.row.id, state=WorkflowState.RUNNING.value, outcome="", reason="", ended_at=None
        )
        self._refresh()
        self.ended([name])


class ItemResults(Results):
    """The results so far, for the body of an item."""

    def __init__(self, so_far: Results, item: Any) -> None:
        super().__init__(so_far._statements, so_far._run)  # noqa: SLF001 - of its own class
        self._known = so_far._known  # noqa: SLF001 - as above
        #: The item that the message is for.
        self.item = item


def locked(statements: StepStatements, id_: UUID, root: UUID) -> LockedRun | None:
    """Lock a run, and return it; None if it is gone."""
    statements.lock(root)
    row = statements.run(id_)
    return None if row is None else LockedRun(statements, row)


def child_ended(statements: StepStatements, parent_id: int, *, failed: bool) -> None:
    """Count a sub-workflow that has ended for the step that waits for it, which is locked."""
    statements.count_child(parent_id, failed=failed)
    found = statements.step(parent_id)
    if found is None or found.state is not StepState.HELD or found.waits > 0:
        return
    finish_steps(statements, [(found, StepState.FAILED if found.failed else StepState.SUCCEEDED)])


def finish_steps(statements: StepStatements, ends: Iterable[tuple[StepRow, StepState]]) -> None:
    """Write the ends of steps, or items, of one workflow that is locked, and go on."""
    states: dict[UUID, dict[str, StepState]] = {}
    for step, state in ends:
        ended = state
        if step.state is not state:
            statements.write_step(step.id, state=state.value, ended_at=statements.now())
        if step.number >= 0:
            whole = statements.count_items(step.run_id, step.name, 1, int(state is not StepState.SUCCEEDED))
            if whole is None:
                continue
            ended = ended_items(whole.failed)
            statements.write_step(whole.id, state=ended.value, ended_at=statements.now())
        states.setdefault(step.run_id, {})[step.name] = ended
    for run_id, known in states.items():
        row = statements.run(run_id)
        if row is not None:
            LockedRun(statements, row, known=known).ended(list(known))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def new_run(workflow: WorkflowDeclaration, given: Any) -> dict[str, Any]:
    """Return the row of a run that is to be written."""
    graph, id_ = workflow.graph, new_message_id()
    number = len(graph_in(graph).rules)
    about = {"id": id_, "root": id_, "name": workflow.name, "open_steps": number}
    return about | {"version": version_of(graph), "graph": graph, "input": written(given)}


def begin_run(statements: StepStatements, row: dict[str, Any], *, raises: bool = False) -> None:
    """Write the steps of a run whose row is written, and begin those that wait for none."""
    rules = graph_in(row["graph"]).rules
    waiting = StepState.WAITING.value
    statements.insert_steps(row["id"], [(rule.name, -1, waiting, len(rule.after), None, None) for rule in rules])
    found = statements.run(row["id"])
    assert found is not None  # noqa: S101 - it was written above
    LockedRun(statements, found, raises=raises).begin()


def start_child(
    statements: StepStatements, workflow: WorkflowDeclaration, given: Any, *, parent: StepRow, label: str = ""
) -> UUID:
    """Start a sub-workflow of a step, which counts it already. Its topmost workflow is locked, or new."""
    row = new_run(workflow, given) | {"root": parent.root, "parent_id": parent.id, "label": label}
    statements.insert_run(row)
    begin_run(statements, row)
    return row["id"]  # type: ignore[no-any-return] # as it was made
