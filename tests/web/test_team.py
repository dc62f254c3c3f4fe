"""Files, the timeline, and the pages of a team with a browser: reading, and acting where it was asked for."""

import re
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from clew.service import call
from support.talks import opened
from web.conftest import Site, Tab

# The pages that have the components of others alone.
OTHERS = (
    "/people", "/people?who=bo", "/keys?who=agent:reviewer", "/settings", "/settings?part=retention",
    "/settings?part=redaction&project=shop", "/settings?part=remotes", "/settings?part=jobs", "/agents?part=programs",
)  # fmt: skip


def test_a_file_has_who_changed_it_and_how(site: Site, tab: Tab) -> None:
    page = tab.open("/files?path=project:shop")
    page.locator(".file-tree").get_by_role("link", name="store.py").click()
    newest = page.locator(".file-history article").first
    expect(page.get_by_role("article").filter(has_text="Why does the lock test fail now and then?")).to_be_visible()
    expect(newest.locator(".diff .removed")).to_have_text("-        rows = self._read()")
    older = page.locator(".file-history article").filter(has=page.locator("details")).first
    older.get_by_text("Its last change").click()
    expect(older.locator(".diff .added").first).to_be_visible()
    newest.get_by_role("link", name=re.compile("event")).click()
    expect(page.locator(".call[open]").first).to_contain_text("store.py")


def test_without_scripts_files_and_the_timeline_can_be_read(site: Site, new_tab: Any) -> None:
    page = new_tab(java_script_enabled=False).page
    page.goto(f"{site.address}/files?of=shop&file=/home/ada/shop/src/store.py")
    older = page.locator(".file-history details").first
    older.locator("summary").click()
    older.get_by_role("link", name="Show the change").click()
    expect(page.locator(".diff .added").first).to_be_visible()
    page.goto(f"{site.address}/timeline?range=month")
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("row").nth(3)).to_be_visible()


def test_the_timeline_has_a_lane_for_each_agent_and_what_begins_comes_in(site: Site, tab: Tab) -> None:
    tab.page.add_init_script("window.setInterval = () => 0")  # What comes in comes by the stream alone.
    page = tab.open("/timeline?range=hour")
    expect(page.locator(".lanes li").filter(has_text="claude-code").locator("a").first).to_be_visible()
    expect(page.locator(".lane-name").filter(has_text="newcomer")).to_have_count(0)
    id = opened(site.context, title="it began just now", agent="newcomer").id
    call(site.context, "append", {"session": id, "drafts": [
        {"kind": "message_added", "role": "user", "text": "go"}]})  # fmt: skip
    lane = page.locator(".lanes li").filter(has_text="newcomer")
    expect(lane.get_by_role("link", name=re.compile("it began just now, (active|waiting)"))).to_be_visible()
    page.get_by_role("link", name="person", exact=True).click()
    expect(page.locator(".lane-name").filter(has_text="ada")).to_have_count(1)
    page.get_by_role("link", name="Earlier").click()
    expect(page.get_by_role("link", name="Now", exact=True)).to_be_visible()
    expect(page.locator("[hx-trigger]")).to_have_count(0)


def test_a_grant_is_given_explained_and_taken_back(site: Site, tab: Tab) -> None:
    page = tab.open("/access")
    page.get_by_role("link", name="Grant rights").click()
    dialog = page.get_by_role("dialog", name="Grant rights")
    dialog.get_by_label("Who").fill("dora")
    dialog.get_by_label("May").select_option("auditor")
    dialog.get_by_label("On the project").fill("docs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text(["Granted"])
    row = page.get_by_role("row").filter(has_text="dora").last
    expect(row).to_contain_text("auditor")
    page.get_by_label("Who", exact=True).fill("dora")
    page.get_by_label("On which project or session").fill("docs")
    page.keyboard.press("Enter")
    ruling = page.get_by_role("row").filter(has_text="audit ").first
    expect(ruling).to_contain_text("yes granted to person:dora on project docs")
    page.get_by_role("row").filter(has_text="dora").filter(has_text="Take back").get_by_text("Take back").click()
    dialog = page.get_by_role("dialog", name="Take back")
    expect(dialog).to_contain_text("person:dora is auditor on docs.")
    dialog.get_by_role("button", name="Take back").click()
    expect(page.get_by_role("status")).to_contain_text(["Taken back"])
    expect(page.get_by_role("row").filter(has_text="Take back").filter(has_text="dora")).to_have_count(0)


def test_a_key_is_shown_once(site: Site, tab: Tab) -> None:
    page = tab.open("/keys?who=service:ci")
    rows = page.locator("#keys-held > .scroll tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Make a key").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("For", exact=True)).to_have_value("service:ci")
    dialog.get_by_label("What it is for").fill("nightly")
    dialog.get_by_role("button", name="Make a key").click()
    expect(dialog.locator("#made-key")).to_have_text(re.compile(r"^clew_service_"))
    dialog.get_by_role("link", name="Done").click()
    expect(rows).to_have_count(2)
    nightly = rows.filter(has_text="nightly")
    expect(nightly).to_contain_text("never")
    assert "clew_service_" not in page.content()
    nightly.get_by_role("link", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(rows).to_have_count(1)


def test_retention_says_what_it_would_remove_and_asks_before_it_does(site: Site, tab: Tab) -> None:
    page = tab.open("/settings?part=retention")
    page.get_by_role("button", name="What would go now?").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("would lose their content; nothing was removed")
    dialog.get_by_role("link", name="Done").click()
    page.get_by_role("link", name="Prune now").click()
    dialog.get_by_label("Type prune to confirm").fill("yes")
    dialog.get_by_role("button", name="Prune now").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nothing was done")
    tab.expect_refusals(1)


def test_a_job_is_tried_again_at_once(site: Site, tab: Tab) -> None:
    page = tab.open("/settings?part=jobs")
    page.get_by_role("button", name="Try again").first.click()
    expect(page.get_by_role("status")).to_contain_text(["It is due now"])


def test_the_log_is_verified_from_its_page(site: Site, tab: Tab) -> None:
    page = tab.open("/audit?operation=share")
    expect(page.get_by_role("row").filter(has_text="share")).to_contain_text("who cy")
    page.get_by_role("link", name="Verify the log").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Verify the log").click()
    expect(dialog).to_contain_text("all of it holds")


def test_the_other_pages_fit_a_phone_and_can_be_read_by_all(site: Site, new_tab: Any) -> None:
    tab = new_tab(viewport={"width": 390, "height": 900}, color_scheme="dark")
    for path in OTHERS:
        page = tab.open(path)
        assert not tab.is_wider_than_its_window(), path
        found = Axe().run(page)
        assert found.violations_count == 0, (path, found.generate_report())
