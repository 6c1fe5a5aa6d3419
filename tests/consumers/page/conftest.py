"""The browser of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.consumers.page.browser import NoBrowser, chromium, programs
from tests.consumers.page.looks import Open


@pytest.fixture
def open_browser(tmp_path: Path) -> Iterator[Open]:
    """Return what opens a browser, with the options of `chromium`; it is closed after the test."""
    try:
        programs()
    except NoBrowser as missing:
        pytest.skip(f"no browser: {missing}")
    with ExitStack() as stack:

        def opened(*size: int, **options: Any) -> webdriver.Chrome:
            return stack.enter_context(chromium(tmp_path / "profile", *size, **options))

        yield opened
