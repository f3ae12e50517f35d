"""Find the files: the standard library of this Python, and three broken files of this example."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Folders of the standard library that are not part of it.
FOREIGN = {"site-packages", "dist-packages", "__pycache__"}
TEST_FOLDERS = {"test", "tests", "idle_test"}
#: Not named ``.py``, so that no tool takes them for code of this project.
BROKEN_EXAMPLES = Path(__file__).with_name("broken")


class Kind(StrEnum):
    """The kind of a file, which decides its priority."""

    PACKAGE = "package"
    MODULE = "module"
    SUBMODULE = "submodule"
    EXAMPLE = "example"
    TEST = "test"


#: 9 is read first.
PRIORITIES = {Kind.PACKAGE: 9, Kind.MODULE: 7, Kind.SUBMODULE: 5, Kind.EXAMPLE: 4, Kind.TEST: 1}


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its name in the index, its path and its kind."""

    path: str
    location: str
    kind: Kind

    @property
    def priority(self) -> int:
        """The priority of its message."""
        return PRIORITIES[self.kind]


def sources(limit: int | None = None) -> list[Source]:
    """Return all files, or about ``limit`` of them spread over the whole library; the broken examples always."""
    library = sorted(standard_library(), key=lambda source: source.path)
    examples = list(broken_examples())
    if limit is not None:
        library = spread(library, max(limit - len(examples), 0))
    return library + examples


def standard_library() -> Iterator[Source]:
    """Yield every ``.py`` file of the running Python's standard library, its tests included."""
    root = Path(sysconfig.get_path("stdlib"))
    for location in root.rglob("*.py"):
        path = location.relative_to(root)
        if FOREIGN.isdisjoint(path.parts) and location.is_file():
            yield Source(path.as_posix(), str(location), kind_of(path))


def broken_examples() -> Iterator[Source]:
    """Yield the broken files of this example."""
    for location in sorted(BROKEN_EXAMPLES.glob("*.py.txt")):
        yield Source(f"broken/{location.stem}", str(location), Kind.EXAMPLE)


def kind_of(path: Path) -> Kind:
    """Return the kind of a file of the standard library, by its path."""
    folders = path.parts[:-1]
    if not TEST_FOLDERS.isdisjoint(folders):
        return Kind.TEST
    if path.name == "__init__.py":
        return Kind.PACKAGE
    return Kind.SUBMODULE if folders else Kind.MODULE


def spread(items: list[Source], count: int) -> list[Source]:
    """Return ``count`` evenly spaced items."""
    count = min(count, len(items))
    return [items[index * len(items) // count] for index in range(count)]
