"""Files for the made-up store: a session that kept them after each turn, and a fork that went another way with them."""

import os
import shutil
import tempfile
from pathlib import Path

from clew.cli.demo_picture import picture
from clew.model import events as e
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.workspaces.snapshot import save

BASKET = '''"""The basket of a customer, and what its coupon takes off."""

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass
class Basket:
    """Lines of articles; a coupon is one of the lines once it was checked."""

    customer: str
    lines: list["Line"] = field(default_factory=list)
    coupon: str = ""

    def total(self) -> Decimal:
        # Rounded once, at the end.
        return sum((line.price * line.count for line in self.lines), Decimal(0))

    def add(self, line: "Line") -> None:
        self.lines.append(line)
        self.coupon = ""


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal
    count: int = 1
'''
# What the calls of the session replaced, and with what.
ADDED = "        self.lines.append(line)\n"
EMPTIED = f'{ADDED}        self.coupon = ""\n'
VALIDATED = f'{ADDED}        if not self.is_valid(self.coupon):\n            self.coupon = ""\n'
KEPT = BASKET.replace(EMPTIED, ADDED)
CHECKED = KEPT.replace(ADDED, VALIDATED)
TEST = """from decimal import Decimal

from basket import Basket, Line


def test_a_coupon_stays_when_something_is_added() -> None:
    basket = Basket("ada", coupon="SPRING")
    basket.add(Line("shoes", Decimal("59.90")))
    assert basket.coupon == "SPRING"
"""
NOTES = """# Shop

Run `make test` before you push.

| part | what |
| --- | --- |
| `src/basket.py` | the basket and its coupon |
| `src/prices.py` | prices, rounded once |
"""
FOLDER, MACHINE = "/home/ada/shop", "laptop"


class Kept:
    """A folder whose files are changed and kept; it is gone when the store is made."""

    def __init__(self, context: Context, session: Session) -> None:
        self._context, self._session = context, session
        self._folder = Path(tempfile.mkdtemp(prefix="clew-demo-"))
        for path, text in {
            "README.md": NOTES, "Makefile": "test:\n\tpytest -q\n", "src/basket.py": BASKET,
            "src/prices.py": "from decimal import Decimal\n\nVAT = Decimal(\"0.20\")\n", "src/__init__.py": "",
            "conf/shop.toml": "[shop]\ncurrency = \"EUR\"\ncoupons = true\n",
        }.items():  # fmt: skip
            self.write(path, text)
        (self._folder / "docs").mkdir()
        (self._folder / "docs" / "checkout.png").write_bytes(picture())
        (self._folder / "current").symlink_to("src/basket.py")
        (self._folder / "Makefile").chmod(0o600)

    def write(self, path: str, text: str) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def remove(self, path: str) -> None:
        (self._folder / path).unlink()

    def keep(self, label: str = "") -> e.WorkspaceSnapshotted:
        """The event of a snapshot of the files as they are now, as if they were on the laptop."""
        saved = save(self._context, self._session, os.fsencode(self._folder))
        name = saved.tree.hex()
        about = e.Workspace(
            folder=FOLDER, machine=MACHINE, files=saved.files, bytes=saved.bytes, branch="coupons",
            commit="4f1d2c0b9a8e7d6c5b4a39281706f5e4d3c2b1a0",
        )  # fmt: skip
        return e.WorkspaceSnapshotted(snapshot=name, blob=name, label=label, workspace=about)

    def close(self) -> None:
        shutil.rmtree(self._folder)
