"""Fuzz every reader: `run.py [--seconds N] [--only NAME] [--jobs N]`. Exits 1 when one of them crashes.

The fuzzer gets an environment of its own, `fuzz/.venv`, made on first use. What was worth keeping of the
inputs is in `fuzz/.corpus`, where the next run begins. An input that crashes a reader is put into `fuzz/.crashes` with
what it said; `fuzz/.venv/bin/python fuzz/target.py NAME FILE` repeats it.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = HERE / ".venv/bin/python"
STAMP = HERE / ".venv/installed"
REQUIREMENTS = (ROOT / "requirements/run.txt", HERE / "requirements.txt")
LONGEST_BYTES = 40_000
SLOWEST_SECONDS = 25


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz every reader.")
    parser.add_argument("--seconds", type=int, default=30, help="for each reader (default 30)")
    parser.add_argument(
        "--only", default="", help="readers whose name contains this, such as codex or gemini-cli.lines"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time (default 1)")
    options = parser.parse_args()
    prepare()
    listed = subprocess.run([PYTHON, HERE / "seeds.py"], capture_output=True, text=True, check=True).stdout.split()
    wanted = [name for name in listed if options.only in name]
    if not wanted:
        print(f"no reader is called {options.only!r}; there are {', '.join(listed)}", file=sys.stderr)
        return 2
    print(f"{'reader':<28} {'inputs':>9} {'edges':>7}  result")
    with ThreadPoolExecutor(options.jobs) as jobs:
        done = jobs.map(lambda name: fuzz(name, options.seconds), wanted)
        crashed = [name for name, well in zip(wanted, done, strict=True) if not well]
    if crashed:
        print(f"\n{len(crashed)} of {len(wanted)} readers crashed: {', '.join(crashed)}; see {HERE / '.crashes'}")
    return int(bool(crashed))


def prepare() -> None:
    """Make the environment, or make it again when what it is made of has changed."""
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in REQUIREMENTS)).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    print(f"Installing the fuzzer into {STAMP.parent.relative_to(ROOT)}", flush=True)
    venv.create(HERE / ".venv", with_pip=True, clear=True)
    install = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--require-hashes"]
    subprocess.run([*install, *(word for path in REQUIREMENTS for word in ("-r", path))], check=True)
    packages = next((HERE / ".venv/lib").glob("python*/site-packages"))
    (packages / "clew.pth").write_text(f"{ROOT / 'src'}\n{ROOT / 'tests'}\n")
    STAMP.write_text(wanted)


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz one reader and print its line of the table; False if it crashed."""
    corpus, crashes = HERE / ".corpus" / name, HERE / ".crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    subprocess.run([PYTHON, HERE / "seeds.py", name, corpus], check=True)
    done = subprocess.run(
        [
            PYTHON, HERE / "target.py", name, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/{name}-",
            f"-timeout={SLOWEST_SECONDS}", f"-max_len={LONGEST_BYTES}", "-rss_limit_mb=1500", "-print_final_stats=1",
            corpus,
        ],
        cwd=HERE, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    runs = re.search(r"number_of_executed_units: (\d+)", said)
    edges = re.findall(r"cov: (\d+)", said)
    print(
        f"{name:<28} {runs[1] if runs else '?':>9} {edges[-1] if edges else '?':>7}  "
        f"{'CRASHED' if done.returncode else 'ok'}",
        flush=True,
    )
    if done.returncode:
        (crashes / f"{name}.txt").write_text(said[-20_000:])
        print(reason(said))
    return done.returncode == 0


def reason(said: str) -> str:
    """What a crash said of itself."""
    _, _, told = said.partition("Uncaught Python exception: ===")
    first, _, traceback = (told or said[-3000:]).strip().partition("\n")
    places = [line.strip() for line in traceback.splitlines() if line.startswith("  File") and "/clew/" in line]
    return "\n".join(f"    {line[:1500]}" for line in (first, *places[-4:]))


if __name__ == "__main__":
    sys.exit(main())
