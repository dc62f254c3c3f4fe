"""What `clew doctor` reports about captures in the background, where nobody sees an error."""

from pathlib import Path

from clew.cli.times import moment
from clew.doctor import Finding
from clew.service.capture.in_background import Failure, describe, load_failures


def findings(home: Path) -> list[Finding]:
    """What `clew doctor` reports about captures in the background."""
    failures = load_failures(home)
    if not failures:
        return [Finding(what="capture", ok=True, found="nothing failed in the background")]
    return [_finding(failure) for failure in failures]


def _finding(failure: Failure) -> Finding:
    program = f" of {failure.runtime}" if failure.runtime else ""
    command = f"clew capture --runtime {failure.runtime}" if failure.runtime else "clew capture"
    return Finding(
        what="capture",
        ok=False,
        found=f"a capture{program} in the background failed at {moment(failure.at)}: {describe(failure)}",
        advice=f"run `{command}`: it tries again and says what is wrong with each file",
    )
