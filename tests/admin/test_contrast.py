"""Every colour of ours can be read, in light and in dark, under two admins (WCAG 2.1, AA)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import django
import pytest

import django_mq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DJANGO = Path(django.__file__).parent / "contrib/admin/static/admin/css"
OURS = Path(django_mq.__file__).parent / "static/django_mq/admin.css"
TEXT, DRAWING = 4.5, 3.0
#: What draws lines and areas. Its text says the same, so a faint level of a heat map or an axis hides nothing.
DRAWN = {"--mq-line", "stroke"}
FAINT = re.compile(
    r"mq-axis|mq-tick|backdrop|nav-sidebar|mq-level[0-4]|mq-drawn-range|mq-mark(?!.mq-deploy)|mq-spark-line|mq-ghost"
    r"|mq-cursor"
)
NAMED = {"white": "#fff", "black": "#000"}

Colour = tuple[float, float, float, float]


def rules(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the selector and the declarations of each rule; those of a media query without it."""
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", plain):
        pairs = (part.split(":", 1) for part in body.split(";") if ":" in part)
        yield selector.strip(), {name.strip(): value.strip() for name, value in pairs}


def variables(text: str, selector: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for where, declared in rules(text):
        if selector in [part.strip() for part in where.split(",")]:
            found |= {name: value for name, value in declared.items() if name.startswith("--")}
    return found


def themes() -> dict[str, dict[str, str]]:
    """Return the custom properties of each theme."""
    base, dark = ((DJANGO / f"{name}.css").read_text() for name in ("base", "dark_mode"))
    light = variables(base, ":root") | variables(dark, ":root") | variables(base, 'html[data-theme="light"]')
    ours = OURS.read_text()
    mine, mine_dark = variables(ours, ":root"), variables(ours, "html.dark")
    night = {"dark": "yes"}
    bare = {"--body-bg": "#fff", "--body-fg": "#374151"}
    return {
        "light": variables(base, ":root") | variables(base, 'html[data-theme="light"]') | mine,
        "dark": night | light | variables(dark, 'html[data-theme="dark"]') | mine,
        "unfold": bare | mine,
        "unfold, dark": night | {"--body-bg": "#111827", "--body-fg": "#d1d5db"} | mine | mine_dark,
    }


def colour(value: str, theme: Mapping[str, str]) -> Colour | None:
    """Return a colour with its opacity; None if the value is none, or takes that of what is round it."""
    value = value.strip().replace("!important", "").strip()
    while match := re.match(r"var\((--[\w-]+)(?:,\s*(.+))?\)$", value):
        value = theme.get(match[1]) or match[2] or ""
    value = NAMED.get(value, value)
    if match := re.match(r"#([0-9a-fA-F]{3,8})$", value):
        digits = match[1] if len(match[1]) > 4 else "".join(2 * digit for digit in match[1])
        red, green, blue, *rest = (int(digits[place : place + 2], 16) for place in range(0, len(digits), 2))
        return red, green, blue, rest[0] / 255 if rest else 1.0
    if match := re.match(r"rgba?\(([^)]*)\)$", value):
        parts = [float(part) for part in re.split(r"[\s,/]+", match[1].strip())]
        return parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else 1.0
    return None


def over(above: Colour, below: Colour) -> Colour:
    alpha = above[3]
    red, green, blue = (alpha * one + (1 - alpha) * other for one, other in zip(above[:3], below[:3], strict=True))
    return red, green, blue, 1.0


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG."""

    def luminance(found: Colour) -> float:
        shares = (part / 255 for part in found[:3])
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    most, least = sorted((luminance(one), luminance(other)), reverse=True)
    return (most + 0.05) / (least + 0.05)


def too_faint(theme: Mapping[str, str]) -> Iterator[str]:
    """Yield what can hardly be read."""
    page, ink = colour("var(--body-bg)", theme), colour("var(--body-fg)", theme)
    assert page
    assert ink
    for selector, declared in rules(OURS.read_text()):
        if FAINT.search(selector) or (".dark" in selector and "dark" not in theme):
            continue
        behind = colour(declared.get("background", ""), theme)
        ground = over(behind, page) if behind else page
        text = colour(declared.get("color", declared.get("fill", "")), theme) or (ink if behind else None)
        if text and contrast(over(text, ground), ground) < TEXT and not ("fill" in declared and behind is None):
            yield f"{selector}: {contrast(over(text, ground), ground):.2f}"
        for name in DRAWN & declared.keys():
            drawn = colour(declared[name], theme)
            if drawn and contrast(over(drawn, page), page) < DRAWING:
                yield f"{selector}: {name}: {contrast(over(drawn, page), page):.2f}"


def test_the_contrast_is_that_of_wcag() -> None:
    black, white, grey = (colour(value, {}) for value in ("#000", "white", "rgb(118 118 118)"))

    assert black
    assert white
    assert grey
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("name", themes())
def test_every_colour_can_be_read(name: str) -> None:
    assert [*too_faint(themes()[name])] == []
