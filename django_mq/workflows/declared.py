"""What code declares: workflows, their steps, and the functions that say conditions, bodies and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django_mq.delivery.consumer.handler_function import HandlerFunction
from django_mq.delivery.publisher import OutgoingMessage, check
from django_mq.engine.decisions.workflows import RunsOn, StepRule, problems_of
from django_mq.engine.options import WHAT_A_NAME_IS, is_name
from django_mq.errors import InvalidMessage, WrongWorkflow, shown
from django_mq.workflows.graphs import version_of, written_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.workflows.results import Results

    #: Is called with the input and the results so far.
    Question: TypeAlias = Callable[[Results], Any]

#: The arguments of ``publish`` that a step may have.
OPTIONS: Final = ("priority", "delay", "ttl", "headers", "type", "group_key", "correlation_id")
NAME_LENGTH: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class WorkflowStep:
    """A step of a workflow, which ``Workflow.step`` has returned."""

    workflow: WorkflowDeclaration
    rule: StepRule
    #: Functions of the results so far: whether the step runs, the body of its message, and its items.
    when: Question | None = None
    body: Question | None = None
    items: Question | None = None

    @property
    def name(self) -> str:
        """The name, by which its result is known."""
        return self.rule.name

    def __repr__(self) -> str:
        return f"<step {self.name} of {self.workflow.name}>"


@dataclass(eq=False)
class WorkflowDeclaration:
    """What code declares of a workflow: all but how it is started."""

    name: str
    steps: dict[str, WorkflowStep] = field(default_factory=dict, init=False)
    #: The graph as it was written last, with the number of its steps.
    _written: tuple[int, str] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise WrongWorkflow(f"A workflow has the name {shown(self.name)}; {WHAT_A_NAME_IS}.")

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def step(
        self,
        name: str,
        to: str | HandlerFunction[..., Any] | WorkflowDeclaration,
        *,
        after: Iterable[WorkflowStep | str] = (),
        for_each: WorkflowStep | str | Question | None = None,
        when: Question | None = None,
        runs_on: str = "success",
        body: Question | None = None,
        compensate: str | HandlerFunction[..., Any] = "",
        **options: Any,
    ) -> WorkflowStep:
        """Declare a step and return it.

        Its message is published ``to`` a queue, given by name or by its handler, when the steps of ``after`` have
        ended; or ``to`` is another workflow, which is started. ``for_each`` names a step whose result is a list,
        or is a function that returns one: there is a message for each item. ``when`` says whether the step runs.
        ``runs_on`` is "success", "failure" or "end" of the steps before it. The body of the message is the
        item, or else the input of the workflow, unless ``body`` says another. ``compensate`` is the queue, or the
        handler, that undoes the step. ``options`` are arguments of ``publish``: {options}.

        Raises WrongWorkflow.
        """
        rule, items = self._rule(name, to, after, for_each, runs_on, compensate, options)
        for what, function in (("when", when), ("body", body)):
            if function is not None and not callable(function):
                raise self._wrong(name, f"has {shown(function)} as {what}; give a function of the results so far")
        rule = _with_functions(rule, when, body)
        if name in self.steps:
            raise self._wrong(name, "is declared twice; rename or remove one")
        self.steps[name] = step = WorkflowStep(self, rule, when, body, items)
        return step

    step.__doc__ = (step.__doc__ or "").replace("{options}", ", ".join(OPTIONS))

    def _rule(  # noqa: PLR0917 - the arguments of step
        self, name: Any, to: Any, after: Any, for_each: Any, runs_on: Any, compensate: Any, options: dict[str, Any]
    ) -> tuple[StepRule, Question | None]:
        if not (isinstance(name, str) and is_name(name) and len(name) <= NAME_LENGTH):
            raise self._wrong(shown(name), f"has a name that cannot be: {WHAT_A_NAME_IS}")
        if isinstance(after, WorkflowStep | str):
            after = [after]
        names = [self._name_of(name, each) for each in after]
        items, of = None, None
        if for_each is not None:
            is_step = isinstance(for_each, WorkflowStep | str)
            of = self._name_of(name, for_each) if is_step else "*"
            if is_step:
                names.append(of)
            elif callable(for_each):
                items = for_each
            else:
                raise self._wrong(name, f"has {shown(for_each)} as for_each; give a step, or a function")
        if runs_on not in {each.value for each in RunsOn}:
            raise self._wrong(name, f"has runs_on={shown(runs_on)}; use 'success', 'failure' or 'end'")
        queue, type_ = ("", "") if isinstance(to, WorkflowDeclaration) else self._target(name, to)
        undoing = self._target(name, compensate)[0] if compensate else ""
        if isinstance(to, WorkflowDeclaration) and (options or undoing):
            raise self._wrong(name, "is a workflow, and has options of a message; give them to the steps of that")
        rule = StepRule(
            name=name,
            after=tuple(dict.fromkeys(names)),
            runs_on=RunsOn(runs_on),
            queue=queue,
            workflow=to.name if isinstance(to, WorkflowDeclaration) else "",
            for_each=of,
            compensate=undoing,
            options=self._checked(name, queue, {"type": type_} | options if type_ else options),
        )
        return rule, items

    def _name_of(self, name: str, given: Any) -> str:
        """Return the name of a step that another one waits for."""
        found = given.name if isinstance(given, WorkflowStep) else given
        mine = given.workflow is self if isinstance(given, WorkflowStep) else True
        if not isinstance(found, str) or not mine or found not in self.steps:
            raise self._wrong(name, f"is after {shown(given)}, which is no step of it; declare that step first")
        return found

    def _target(self, name: str, given: Any) -> tuple[str, str]:
        """Return a queue, and the type of the messages of its handler."""
        if isinstance(given, HandlerFunction):
            return given.handler.queue, given.handler.type
        if isinstance(given, str) and is_name(given):
            return given, ""
        raise self._wrong(name, f"goes to {shown(given)}; give the name of a queue, a handler, or a Workflow")

    def _checked(self, name: str, queue: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return options as they are stored. Raises WrongWorkflow."""
        if unknown := sorted(options.keys() - set(OPTIONS)):
            raise self._wrong(name, f"has the option {unknown[0]!r}; use some of {', '.join(OPTIONS)}")
        found = {key: _seconds(value) for key, value in options.items()}
        if queue:
            try:
                check(OutgoingMessage(queue=queue, **found))
            except InvalidMessage as error:
                raise self._wrong(name, f"cannot be published: {error}") from None
        return found

    def _wrong(self, name: str, what: str) -> WrongWorkflow:
        return WrongWorkflow(f"The step {name} of the workflow {self.name!r} {what}.")

    @property
    def graph(self) -> str:
        """The graph as a row has it. Raises WrongWorkflow for one without steps."""
        number = len(self.steps)
        if self._written is None or self._written[0] != number:
            rules = [step.rule for step in self.steps.values()]
            for problem in problems_of(rules):
                raise WrongWorkflow(f"The workflow {self.name!r} is wrong. {problem}")
            self._written = number, written_graph(rules)
        return self._written[1]

    @property
    def version(self) -> str:
        """What tells this graph from earlier ones."""
        return version_of(self.graph)


def _with_functions(rule: StepRule, when: Any, body: Any) -> StepRule:
    return replace(rule, has_condition=when is not None, has_body=body is not None)


def _seconds(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return dict(value) if isinstance(value, Mapping) else value
