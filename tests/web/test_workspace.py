"""The files of a session in a browser: looked at as they were, compared, restored with a preview, and undone."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew.server.web.file_text import LINES, PART, shown_text
from clew.service import call
from support.talks import opened
from web.conftest import Site, Tab


def test_a_restore_shows_what_it_changes_and_is_undone(site: Site, tab: Tab, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a b.txt").write_text("first\n")
    id = opened(site.context, title="gone back", project="acting").id
    call(site.context, "workspace_snapshot", {"session": id, "folder": str(folder)})
    (folder / "a b.txt").write_text("second\n")
    (folder / "new.txt").write_text("not there before\n")
    page = tab.open(f"/sessions/{id}/workspace?at=2")
    page.get_by_role("link", name="Restore").click()
    dialog = page.get_by_role("dialog", name="Restore")
    expect(dialog).to_contain_text("It will remove 1 path, replace 1 path.")
    expect(dialog.locator(".changes li")).to_contain_text(["~ a b.txt 7 → 6 bytes", "- new.txt 17 bytes"])
    # With another path it would do something else: that is shown before anything is done.
    dialog.get_by_label("Only this file or folder").fill("a b.txt")
    dialog.get_by_role("button", name="Restore").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nothing was done yet")
    expect(dialog.locator(".changes li")).to_have_count(1)
    assert (folder / "a b.txt").read_text() == "second\n"
    dialog.get_by_role("button", name="Restore").click()
    toast = page.get_by_role("status").filter(has_text="Restored")
    expect(toast).to_be_visible()
    assert (folder / "a b.txt").read_text() == "first\n"
    assert (folder / "new.txt").exists()
    toast.get_by_role("link", name="Undo").click()
    expect(dialog.locator(".changes li")).to_contain_text(["~ a b.txt 6 → 7 bytes"])
    dialog.get_by_role("button", name="Restore").click()
    expect(dialog).to_be_hidden()
    assert (folder / "a b.txt").read_text() == "second\n"
    page.goto(f"{site.address}/sessions/{id}/workspace/restore")
    expect(page.get_by_role("alert")).to_contain_text("there is nothing to restore")
    out = tmp_path / "copy of it"
    tab.open(f"/sessions/{id}/workspace?at=2").get_by_role("link", name="Check out").click()
    dialog = page.get_by_role("dialog", name="Check out")
    dialog.get_by_label("New folder").fill("copy")
    dialog.get_by_role("button", name="Check out").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is no whole path")
    dialog.get_by_label("New folder").fill(str(out))
    dialog.get_by_role("button", name="Check out").click()
    expect(page.locator("dialog #command")).to_have_text(f"cd '{out}'")
    assert (out / "a b.txt").read_text() == "first\n"
    tab.expect_refusals(2)


def test_without_scripts_the_files_of_any_event_are_read(site: Site, new_tab: Any) -> None:
    tab = new_tab(java_script_enabled=False)
    page = tab.page
    page.goto(f"{site.address}/sessions/{site.kept}")
    page.get_by_role("link", name="Files", exact=True).last.click()
    page.locator("main").get_by_role("link", name="src/").click()
    page.locator("table").get_by_role("link", name="basket.py").click()
    assert "def total(self)" in page.locator("ol.lines").inner_text()
    assert page.locator("#L15 .h-k").inner_text() == "def"
    page.get_by_role("link", name="Snapshot before").click()
    expect(page.locator(".then")).to_contain_text("As of event 8 of 15")
    assert "path=src" in page.url
    page.get_by_role("link", name="Snapshots", exact=True).click()
    first = page.locator("#s8")
    expect(first).to_contain_text("after Edit src/basket.py")
    first.get_by_role("link", name="~ src/basket.py").click()
    expect(page.locator(".diff .removed")).to_have_text(['-        self.coupon = ""'])
    page.goto(f"{site.address}/sessions/{site.kept}/workspace?path=tests/test_basket.py")
    page.get_by_role("link", name="Who wrote what").click()
    expect(page.locator("#L1 td").first).to_contain_text("Write")
    expect(page.locator("#L9")).to_have_text('9    assert basket.coupon == "SPRING"')
    page.goto(f"{site.address}/sessions/{site.kept}/workspace?path=docs/checkout.png")
    assert page.evaluate("document.querySelector('main img').naturalWidth") == 480
    with tarfile.open(fileobj=io.BytesIO(_got(tab, f"/v1/sessions/{site.kept}/workspace/tar"))) as archive:
        assert f"{site.kept[:10]}-15/tests/test_basket.py" in archive.getnames()


def _got(tab: Tab, path: str) -> bytes:
    answer = tab.page.request.get(tab.site.address + path)
    assert answer.status == 200
    return bytes(answer.body())


def test_only_pixels_are_shown_as_an_image(site: Site, tab: Tab) -> None:
    first = sorted(kept.seq for kept in call(site.context, "workspace_log", {"session": site.hostile}))[-2]
    for path, status in (("caf\\xe9\\xff.png", 415), ("x.svg", 415), ("to", 400), ("nothing.png", 404)):
        answer = tab.page.request.get(
            f"{site.address}/sessions/{site.hostile}/workspace/image", params={"at": first, "path": path}
        )
        assert answer.status == status, path


# A text in parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "one", "a\n" * 5_001, "x" * (3 * PART + 7), "short\n" + "y" * (PART + 9) + "\nend", "\n" * (LINES * 2)],
    ids=["empty", "one", "many lines", "one long line", "a long line", "empty lines"],
)
def test_the_parts_of_a_text_are_all_of_it(text: str) -> None:
    begin: int | None = 0
    seen, places = "", []
    while begin is not None:
        part = shown_text(text, "x.txt", begin)
        assert len(part.lines) <= LINES
        assert part.end - part.begin <= PART
        seen += text[part.begin : part.end]
        places.append(begin)
        begin = part.later
    assert seen == text
    if len(places) > 1:
        assert shown_text(text, "x.txt", places[-1]).earlier is not None
        assert shown_text(text, "x.txt", places[1]).earlier == 0


def test_a_line_of_code_is_whole_in_itself() -> None:
    text = '"""one\ntwo <b>"""\nx = 1\n'
    lines = shown_text(text, "a.py", 0).lines
    assert lines[1].count("<span") == lines[1].count("</span>") == 1
    assert "&lt;b&gt;" in lines[1]
