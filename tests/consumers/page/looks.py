"""What a browser shows of a page, and whether it is as every page must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.brokers.jvm import CannotRun
from tests.consumers.page.axe import checker
from tests.consumers.page.test_site import value_at

LOOKS = [(1280, "light"), (1280, "dark"), (360, "light"), (320, "dark")]
MOVING = ("memory.", "process.")
"""Parts of the status that change from one look to the next."""
Open = Callable[..., webdriver.Chrome]


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
        script = checker()
    except CannotRun as missing:
        pytest.skip(f"axe-core is not to be had: {missing}")
    chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
    found = chrome.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 20
    return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]
