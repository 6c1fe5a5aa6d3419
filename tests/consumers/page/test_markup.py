"""Markup that escapes whatever is no markup."""

from __future__ import annotations

from hypothesis import given, strategies as st

from consumers.page.markup import element, join, raw


@given(st.text(), st.text())
def test_text_cannot_leave_its_element(text: str, value: str) -> None:
    """Whatever the text and the attribute: no angle bracket or quotation mark of theirs is left."""
    made = element("p", text, title=value)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2


def test_markup_is_not_escaped_twice() -> None:
    """Elements inside of elements stay elements; text beside them is escaped once."""
    assert element("b", element("i", "<&>"), "x") == "<b><i>&lt;&amp;&gt;</i>x</b>"
    assert join(raw("<hr>"), None, 3) == "<hr>3"


def test_attributes_are_named_as_in_python() -> None:
    """Hyphens, reserved words, presence, absence, and those of SVG."""
    made = element("button", hidden=True, class_="a", aria_label="b", disabled=None, view_box="0 0 1 1", x=1.5)
    assert made == '<button hidden class="a" aria-label="b" viewBox="0 0 1 1" x="1.5"></button>'
