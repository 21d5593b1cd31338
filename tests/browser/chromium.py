"""The Chromium of this machine."""

from __future__ import annotations

import shutil

from playwright.async_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",  # without one it would be imitated, which takes ten times as long
    "--host-resolver-rules=MAP glassbox.test 127.0.0.1",  # an origin that is not secure
)


def binary() -> str | None:
    """Where the browser is; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


async def launched(playwright: Playwright, program: str) -> Browser:
    return await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
