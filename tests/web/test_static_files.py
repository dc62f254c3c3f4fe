"""Styles and scripts: ours are small, those of others are the ones that were looked at."""

import hashlib
import json
import re
from pathlib import Path

import httpx2

import clew.server.web
from clew.server.web.static_files import address, packed, static_files
from web.conftest import Site

WEB = Path(clew.server.web.__file__).parent
VENDOR = WEB / "static" / "vendor"


def test_each_vendored_file_is_named_with_its_version_licence_and_hash() -> None:
    known = {entry["file"]: entry for entry in json.loads((VENDOR / "vendor.json").read_text())}
    files = {path.name for path in VENDOR.iterdir()} - {"vendor.json"}
    assert files == set(known)
    for name, entry in known.items():
        assert entry["sha256"] == hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()
        assert entry["package"]
        assert entry["version"]
        assert entry["licence"] in ("0BSD", "MIT", "Apache-2.0", "BSD-3-Clause", "ISC")


def test_scripts_and_styles_stay_small() -> None:
    sizes = {"js": 0, "css": 0}
    for name, file in static_files().items():
        sizes[name.rpartition(".")[2]] += len(file.data)
    assert sizes["js"] <= 150_000
    assert sizes["css"] <= 40_000


def test_styles_are_served_without_comments_and_blanks() -> None:
    assert packed('/* a\n{b} */\na > b :is(c, d) {\n  width: calc(1px - 2px); content: "x y";\n}\n') == (
        'a > b :is(c,d){width:calc(1px - 2px);content:"x y"}'
    )
    for path in (WEB / "static").glob("*.css"):
        text = re.sub(r"(?s)/\*.*?\*/", "", path.read_text())
        assert not any(set(string) & set("{};,:") for string in re.findall(r'"([^"\n]*)"', text)), path
        assert packed(text).count("{") == text.count("{"), path


def test_a_browser_keeps_a_file_as_long_as_it_is_the_same(site: Site) -> None:
    with httpx2.Client(base_url=site.address) as client:
        for name in static_files():
            answer = client.get(address(name))
            assert "immutable" in answer.headers["cache-control"]
            assert client.get(f"/assets/0123456789abcdef/{name}").headers["cache-control"] == "no-cache"
            assert client.get(f"/assets/{name}").content == answer.content
        assert client.get("/assets/vendor/../../routes.py").status_code == 404


def test_templates_hold_to_what_keeps_stored_text_harmless() -> None:
    for path in (WEB / "templates").rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape|\sstyle=|\son[a-z]+=|<script>|javascript:", text), path
        # An attribute without quotes ends at the first blank of its value.
        assert not re.search(r"<[^>{]*\s[a-z-]+=\{\{", text), path
    for path in WEB.rglob("*.py"):
        if path.parent.name != "text":
            assert "Markup(" not in path.read_text(), path
            assert not re.search(r"[\"']<[a-z]", path.read_text()), f"{path} has HTML in a string"
