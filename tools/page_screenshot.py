"""Draws docs/images/sessions.png: the first page of `clew up` in a real browser (Chromium), on a home made for it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import clew
from clew.model.events import RuntimeAttached

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "sessions.png"
SESSIONS = [
    ("Fix the lock error in the test database", "shop", "claude-code", 6, 2, "close"),
    ("Why is the checkout slow on Mondays?", "shop", "codex", 4, 0, ""),
    ("Move the invoices to the new schema", "billing", "opencode", 9, 1, "pause"),
    ("Review: rate limits per key", "gateway", "gemini-cli", 3, 0, "close"),
    ("Continue the migration where Codex stopped", "billing", "claude-code", 5, 0, ""),
]


def main() -> int:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("needs chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as home:
        fill(home)
        server = subprocess.Popen(
            [sys.executable, "-m", "clew", "up", "--no-browser", "--no-capture"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "CLEW_HOME": home, "CLEW_PRINCIPAL": "person:ada"},
        )  # fmt: skip
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--window-size=1100,560", f"--user-data-dir={home}/browser", f"--screenshot={TARGET}", found[0]],
                check=True, capture_output=True,
            )  # fmt: skip
        finally:
            server.terminate()
            server.wait()
    print(TARGET.name)
    return 0


def fill(home: str) -> None:
    with clew.connect(home=home, principal="person:ada") as plane:
        for title, project, runtime, turns, failures, end in SESSIONS:
            session = plane.session(title, project=project, agent=runtime)
            session.append(RuntimeAttached(runtime=runtime, cwd=f"/home/ada/{project}", machine="laptop"))
            for turn in range(turns):
                session.user(f"{title}, step {turn + 1}")
                session.call("shell", {"command": "pytest -x"}).returned("done", failed=turn < failures)
                session.assistant("Done; the tests pass.")
            if end == "close":
                session.close()
            elif end == "pause":
                session.pause(reason="waiting for a review")


if __name__ == "__main__":
    sys.exit(main())
