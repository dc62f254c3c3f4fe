"""A browser, and the server of one person on a store that real readers filled."""

import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from clew.cli.demo_store import KEEPS_FILES, fill
from clew.service import Context, call
from server.running import Running
from web.hostile import hostile_session
from web.stories import capture_samples

OWN = "a secret of this browser alone, of a good length"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


class Site(NamedTuple):
    """A running server, and the sessions that tests look at."""

    running: Running
    context: Context
    session: str
    hostile: str
    kept: str
    """The one whose files were kept."""

    @property
    def address(self) -> str:
        return self.running.address


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    with Running(f"sqlite:///{home / 'clew.db'}", str(home), own_secret=OWN) as running:
        context = running.authenticator.owner_context()
        capture_samples(context, home / "files")
        shown = fill(context).id
        [kept] = [line.id for line in call(context, "sessions", {"limit": 1000}) if line.title == KEEPS_FILES]
        yield Site(running, context, shown, hostile_session(context).id, kept)


# Playwright keeps an event loop running in its thread, so the tests of other modules begin after it has ended.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None, "the tests of pages need a browser; tools/system_packages.sh installs chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """A tab of a browser that is logged in, and everything that must not happen in it."""

    def __init__(self, site: Site, context: BrowserContext) -> None:
        self.site = site
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda told: told.type == "error" and self.complaints.append(told.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"a script failed: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.site.address, "data:,")):
            self.complaints.append(f"a request left: {request.url}")

    def open(self, path: str) -> Page:
        """Open a page, and wait until its scripts have run."""
        self.page.goto(self.site.address + path)
        self.page.wait_for_selector("[data-theme-toggle]:not([hidden])")
        return self.page

    def shows(self, path: str, *, may_refuse: bool = False) -> bool:
        """Whether an address leads to a page, and not to a file to keep."""
        answer = self.page.request.get(self.site.address + path)
        assert answer.status == 200 or may_refuse, (path, answer.status)
        return "attachment" not in answer.headers.get("content-disposition", "")

    def expect_refusals(self, count: int) -> None:
        """A browser reports each answer that is a refusal, and each that does not come, as an error of its own."""
        assert len(self.complaints) == count
        assert all("Failed to load resource" in complaint for complaint in self.complaints)
        self.complaints.clear()

    def is_wider_than_its_window(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.fixture
def new_tab(site: Site, browser: Browser) -> Iterator[Any]:
    """Opens tabs, each with settings of its own; whatever complains in one fails the test."""
    contexts: list[BrowserContext] = []
    tabs: list[Tab] = []

    def new(**settings: Any) -> Tab:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, "locale": "en-GB", **settings})
        cookie = {"name": site.running.application.identity.cookie, "value": OWN, "url": site.address}
        context.add_cookies([cookie])
        contexts.append(context)
        tabs.append(Tab(site, context))
        return tabs[-1]

    yield new
    complaints = [complaint for tab in tabs for complaint in tab.complaints]
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def tab(new_tab: Any) -> Tab:
    made: Tab = new_tab()
    return made
