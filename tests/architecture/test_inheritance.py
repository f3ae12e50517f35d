"""Composition before inheritance: few of our classes stand above each other."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "django_mq"
#: The class itself and mixins included. A page of Django's admin is made by inheriting.
MOST_CLASSES = 4
MOST_CLASSES_OF_THE_ADMIN = 6


def classes(folder: str) -> Iterator[type]:
    """Yield the classes of a folder of the package."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        inside = path.relative_to(PACKAGE.parent).with_suffix("")
        module = import_module(".".join(inside.parts).removesuffix(".__init__"))
        found = (each for _, each in inspect.getmembers(module, inspect.isclass))
        yield from (each for each in found if each.__module__ == module.__name__)


@pytest.mark.parametrize(
    "folder",
    [
        "admin",
        "delivery",
        "engine",
        "inprocess",
        "integrations/celery",
        "integrations/tasks",
        "models",
        "notifications",
        "stores",
    ],
)
def test_a_class_has_few_of_our_classes_above_it(folder: str) -> None:
    most = MOST_CLASSES_OF_THE_ADMIN if folder == "admin" else MOST_CLASSES
    ours = {each: [kind.__module__.startswith("django_mq.") for kind in each.__mro__] for each in classes(folder)}

    assert [each.__qualname__ for each, above in ours.items() if sum(above) > most] == []
