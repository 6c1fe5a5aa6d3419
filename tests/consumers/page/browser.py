"""A real Chromium without a window: what it shows of a page, and whether the page is as every page must be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.brokers.jvm import CannotRun
from tests.consumers.page.boards import value_at
from tests.npm import packages

LOOKS = [(1280, "light"), (1280, "dark"), (360, "light"), (320, "dark")]
MOVING = ("memory.", "process.")
"""Parts of the status that change from one look to the next."""
Open = Callable[..., webdriver.Chrome]
MANIFEST = Path(__file__).parent / "package.json"
"""Of axe-core, the checker of accessibility."""
INSTALL_TIMEOUT_S = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def programs() -> tuple[str, str]:
    """Return the paths of Chromium and its driver, or skip the test."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no browser: Chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")
    return browser, driver


@contextmanager
def chromium(
    profile: Path, width: int = 1280, height: int = 1000, *, scheme: str = "light", javascript: bool = True
) -> Iterator[webdriver.Chrome]:
    """Open a browser of a size and a colour scheme; it logs its console and every request."""
    browser, driver = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        chrome.set_page_load_timeout(60)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield chrome
    finally:
        chrome.quit()


def troubles(chrome: webdriver.Chrome) -> list[str]:
    """Return what the console complained of, and every host but ours that was asked."""
    said = [entry["message"] for entry in chrome.get_log("browser")]  # type: ignore[no-untyped-call]
    for entry in chrome.get_log("performance"):  # type: ignore[no-untyped-call]
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            asked = urlsplit(event["params"]["request"]["url"])
            if asked.scheme not in ("data", "chrome", "devtools") and asked.hostname != "127.0.0.1":
                said.append(f"asked {asked.geturl()}")
    return said


def numbers(chrome: webdriver.Chrome) -> dict[str, tuple[str, str]]:
    """Return every number of the page by its name in the status: the exact one, and as it is written."""
    return {
        str(each.get_attribute("data-field")): (str(each.get_attribute("value")), each.text)
        for each in chrome.find_elements(By.TAG_NAME, "data")
    }


def number_of(shown: dict[str, tuple[str, str]], field: str) -> int:
    """Return a number among those shown."""
    return int(shown[field][0])


def agree_with_the_status(shown: dict[str, tuple[str, str]], url: str) -> None:
    """Compare the numbers of a page, but those that never stand still, with `/status.json`."""
    with urlopen(f"{url}/status.json", timeout=10) as answer:
        document = json.loads(answer.read())
    for field, (exact, text) in shown.items():
        if field.startswith(MOVING):
            continue
        expected = value_at(document, field)
        assert exact == ("" if expected is None else repr(expected)), field
        if isinstance(expected, int):
            assert not text or int(text.replace(",", "")) == expected, field


def assert_fits(chrome: webdriver.Chrome, width: int, scheme: str) -> None:
    """See that nothing scrolls sideways, nothing complains, and the scheme is the one asked for."""
    inner, scrolled = chrome.execute_script(
        "const e = document.documentElement; return [e.clientWidth, Math.max(e.scrollWidth, document.body.scrollWidth)]"
    )
    assert inner == width
    assert scrolled <= inner
    paper = chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
    lightness = np.mean([int(part) for part in paper.removeprefix("rgb(").removesuffix(")").split(",")])
    assert (lightness > 128) == (scheme == "light")
    assert troubles(chrome) == []


def violations(chrome: webdriver.Chrome) -> list[tuple[str, str]]:
    """Return what axe-core finds against WCAG 2.2 A and AA and its best practices: the rule, and where first."""
    try:
        script = (packages(MANIFEST, "axe", INSTALL_TIMEOUT_S) / "axe-core" / "axe.min.js").read_text()
    except CannotRun as missing:
        pytest.skip(f"axe-core is not to be had: {missing}")
    chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
    found = chrome.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 20
    return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]
