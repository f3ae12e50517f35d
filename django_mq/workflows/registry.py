"""The workflows that the code declares, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.module_loading import autodiscover_modules

from django_mq.delivery.consumer.handlers import discover
from django_mq.errors import UnknownWorkflow, WrongWorkflow

if TYPE_CHECKING:
    from django_mq.workflows.declared import WorkflowDeclaration

_declared: dict[str, WorkflowDeclaration] = {}


def add(workflow: WorkflowDeclaration) -> None:
    """Let a workflow be found by its name. Raises WrongWorkflow if another one has it."""
    if workflow.name in _declared:
        raise WrongWorkflow(f"Two workflows have the name {workflow.name!r}; give one of them another name.")
    _declared[workflow.name] = workflow


def declared(name: str) -> WorkflowDeclaration:
    """Return the workflow of this name, after all code is imported. Raises UnknownWorkflow."""
    if name not in _declared:
        discover()
        autodiscover_modules("workflows")
    if name not in _declared:
        raise UnknownWorkflow(f"No code declares the workflow {name!r}; correct the name, or import its module.")
    return _declared[name]


def forget(name: str) -> None:
    """Remove a workflow; for tests."""
    _declared.pop(name, None)
