"""HTML and SVG as values: what is not markup is escaped, so that no name from outside can become markup."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is markup already; made by `element` and `join` only, and by `raw` of constants."""

    __slots__ = ()


MINUS = "\N{MINUS SIGN}"
VOID = frozenset({"meta", "link", "br", "hr", "input"})
Child = str | int | None


def raw(constant: str) -> Markup:
    """Take a constant of the program for markup."""
    return Markup(constant)


def join(*children: Child) -> Markup:
    """Put children one after another. Plain text is escaped, markup is kept, and None is left out."""
    return Markup("".join(_text(child) for child in children if child is not None))


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Attributes are named as in Python: a trailing underscore is cut off, others become hyphens (`aria_label`, `class_`);
    `view_box` becomes SVG's `viewBox`. True is an attribute without a value; None and False leave the attribute out.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(shown)}"'


def _text(child: Child) -> str:
    return child if isinstance(child, Markup) else escape(str(child))
