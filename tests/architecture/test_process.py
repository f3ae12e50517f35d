"""``django_mq.process`` lists what modules keep for the whole process."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from django_mq.process import KEPT, PURE
from tests.structure.tracing import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a module-level variable is made by if it changes.
MAKERS = {"set", "dict", "list", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary", "deque", "Counter"}
MAKERS |= {"defaultdict", "local", "Lock", "RLock", "ProcessClock", "ApartThreads", "Question"}
CACHES = ("cache", "lru_cache")


def changing() -> Iterator[str]:
    """Yield the variables of modules that change, and the functions with caches."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).with_suffix("").parts
        if "migrations" in inside:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_changing(value):
                    yield ".".join((*inside, name))
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if is_changing(value):
                    yield ".".join((*inside, name))
                case ast.FunctionDef(name=name, decorator_list=[*_, decorator]):
                    if ast.unparse(decorator).partition("(")[0] in CACHES:
                        yield ".".join((*inside, name))


def is_changing(value: ast.expr | None) -> bool:
    """Whether a variable with this value at first is one that changes."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=function, args=arguments):
            name = ast.unparse(function).partition("[")[0].rpartition(".")[2]
            return name in MAKERS and not (arguments and name in {"set", "dict", "list"})
    return False


def test_every_variable_that_changes_is_listed() -> None:
    assert sorted(changing()) == sorted({*KEPT, *PURE})


def test_every_fork_hook_is_registered_by_one_function() -> None:
    users = [path.name for path in PACKAGE.rglob("*.py") if "register_at_fork" in path.read_text(encoding="utf-8")]

    assert users == ["process.py"]
