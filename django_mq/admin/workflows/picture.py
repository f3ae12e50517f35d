"""The picture of a graph with the words and the states of its steps, for graph.html."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.admin.workflows.drawing import HEIGHT, WIDTH, Node, NodeKind, drawn
from django_mq.diagnosis.language import exact

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django_mq.admin.workflows.drawing import Box

#: The words for the states of several steps.
KIND_WORDS: Final = {
    NodeKind.BAD: gettext_lazy("failed"),
    NodeKind.GOING: gettext_lazy("running"),
    NodeKind.WAITING: gettext_lazy("waiting"),
    NodeKind.DONE: gettext_lazy("succeeded"),
    NodeKind.LEFT: gettext_lazy("not run"),
}
#: How wide the bar of a box is that stands for several, or has items.
BAR: Final = WIDTH - 20


@dataclass(frozen=True, slots=True)
class Drawable:
    """What a picture says of a step."""

    name: str
    after: Collection[str]
    kind: NodeKind
    #: Its state in words, and more that is shown on hover.
    words: str
    more: str = ""
    #: The page that it leads to; blank for none.
    address: str = ""
    #: If it has items: how many have ended well, and how many there are.
    share: tuple[int, int] | None = None


def picture_of(steps: Sequence[Drawable]) -> dict[str, Any]:
    """Return the context of graph.html."""
    by_name = {step.name: step for step in steps}
    found = drawn([Node(step.name, step.after, step.kind) for step in steps])
    counted = Counter(step.kind for step in steps)
    return {
        "width": found.width,
        "height": found.height,
        "box_width": WIDTH,
        "box_height": HEIGHT,
        "lines": found.lines,
        "boxes": [_box(box, by_name) for box in found.boxes],
        "is_folded": any(box.is_folded for box in found.boxes),
        "summary": _counted(counted),
        "legend": [(kind.value, words) for kind, words in KIND_WORDS.items() if counted[kind]],
    }


def _box(box: Box, steps: Mapping[str, Drawable]) -> dict[str, Any]:
    inside = [steps[name] for name in box.names]
    place = {"x": box.x, "y": box.y, "before": [each.names[0] for each in box.before]}
    if not box.is_folded:
        step = inside[0]
        shown = {"name": step.name, "kind": step.kind.value, "words": step.words, "more": step.more}
        return (
            place | shown | {"address": step.address, "bar": _bar(step.share), "is_many": step.share is not None}
        )
    counted = Counter(step.kind for step in inside)
    [kind] = [kind for kind in KIND_WORDS if counted[kind]][:1]
    number = ngettext("%(count)s step", "%(count)s steps", len(inside)) % {"count": exact(len(inside))}
    done = counted[NodeKind.DONE]
    return place | {
        "name": _("%(number)s, as %(name)s") % {"number": number, "name": inside[0].name},
        "kind": kind.value,
        "words": _counted(counted),
        "more": f"{inside[0].name} … {inside[-1].name}",
        "address": "",
        "bar": _bar((done, len(inside))),
        "is_many": True,
    }


def _counted(counted: Mapping[NodeKind, int]) -> str:
    return ", ".join(f"{exact(counted[kind])} {words}" for kind, words in KIND_WORDS.items() if counted.get(kind))


def _bar(share: tuple[int, int] | None) -> int | None:
    """Return how long the part of the bar is that is done."""
    return None if share is None else round(BAR * share[0] / max(share[1], 1))
