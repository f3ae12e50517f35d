"""Values that tests name in EXTENSIONS."""

from __future__ import annotations

from types import SimpleNamespace

from django_mq.engine.options import Option
from django_mq.seams.extension import Duty, Extension, Listening, Panel

FIRST = Extension(name="first")
SECOND = Extension(name="second")
SAME = Extension(name="first")
NAMELESS = Extension(name="")
SOMETHING = 3
LISTING = Extension(name="shop", duties=[])  # type: ignore[arg-type]
BARE = Extension(name="shop", duties=(print,))  # type: ignore[arg-type]
LOOSE = Extension(name="shop", findings=("print",))  # type: ignore[arg-type]
ENDLESS_DUTY = Extension(name="shop", duties=(Duty(name="all", run=lambda _store, _limit: 0, limit=0),))
STRAY = Extension(name="shop", panels=(Panel(page="worker", title="Stock", content=lambda _request, _row: ""),))
UNCALLED = Extension(name="shop", middleware=(3,))
UNTOLD = Extension(
    name="shop",
    ends=(Listening(name="the shop", ends=frozenset(), wants=lambda _: True, tell=lambda _store, _ended: None),),
)
CAPITAL = Extension(name="Shop")
FOREIGN = Extension(name="shop", settings=(Option(name="OTHER_SECONDS", type="int", default=0, help="What."),))
NAMESAKE = Extension(name="max", queue_options=(Option(name="max_attempts", type="int", default=0, help="What."),))
UNSHOWN = Extension(name="shop", queue_options=(Option(name="shop_size", type="int", default=0, help="What."),))
LISTED = Extension(name="shop", settings=(Option(name="SHOP_SIZES", type="list", default=[], help="What."),))
ENDLESS = Extension(name="shop", settings=(Option(name="SHOP_TEXT", type="str", default="", help="What."),))
MISSING = Extension(name="shop", settings=(Option(name="SHOP_SIZE", type="int", help="What."),))


async def wait(attempt: object, proceed: object) -> None:
    """Never run: no caller awaits it."""


ASYNCHRONOUS = Extension(name="shop", middleware=(SimpleNamespace(process=wait),))
