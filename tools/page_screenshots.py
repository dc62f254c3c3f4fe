"""Draws the pictures of the dashboard in docs/images, in Chromium, on the store that the tests of pages use.

Arguments name the pictures to draw; without any, all are drawn.
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for the server and its store

from playwright.sync_api import sync_playwright  # noqa: E402

from clew.cli.demo_store import fill  # noqa: E402
from server.running import Running  # noqa: E402
from web.conftest import ARGUMENTS, OWN  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1360, "height": 570}


def main() -> int:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        print("needs chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        with Running(f"sqlite:///{home / 'clew.db'}", str(home), own_secret=OWN) as running:
            context = running.authenticator.owner_context()
            session = fill(context)
            browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
            pages = (
                ("home", "/", "dark", ".heat"), ("session", f"/sessions/{session.id}", "light", "#live:not([hidden])"),
                ("files", "/files?of=shop&file=/home/ada/shop/src/store.py", "light", ".diff"),
                ("access", "/access?who=bo&what=shop", "dark", ".held"),
            )  # fmt: skip
            for name, path, theme, is_there in pages:
                if sys.argv[1:] and name not in sys.argv[1:]:
                    continue
                tab = browser.new_context(viewport=SIZE, color_scheme=theme)
                tab.add_cookies([{"name": running.application.identity.cookie, "value": OWN, "url": running.address}])
                page = tab.new_page()
                page.goto(running.address + path)
                page.wait_for_selector(is_there)
                page.evaluate("document.querySelectorAll('.call.failed').forEach((call) => (call.open = true))")
                page.screenshot(path=IMAGES / f"{name}.png")
                print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
