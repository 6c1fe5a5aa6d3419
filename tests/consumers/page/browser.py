"""A real Chromium without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

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


class NoBrowser(Exception):
    """There is no Chromium here, or no driver for it."""


def programs() -> tuple[str, str]:
    """Return the paths of Chromium and its driver.

    Raises
    ------
    NoBrowser
        If one is missing.
    """
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise NoBrowser("Chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")
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
