"""A short campaign with every change; `make attack` runs the whole of it, on both databases."""

from pathlib import Path

from attack.campaign import campaign, find
from attack.holes import HOLES
from attack.world import plant

SEED = 14
ATTACKS = 400
# Each takes a server of its own, so only these are looked for with every change; make attack looks for all.
PLANTED = ("lists are not narrowed", "events of others change rules", "answers are not masked")


def test_no_attack_on_a_running_server_succeeds(tmp_path: Path) -> None:
    result = campaign(plant(f"sqlite:///{tmp_path}/clew.db", tmp_path, SEED), SEED, ATTACKS)
    told = [f"{each.attack.family}: {each.attack.about}: {each.why}" for each in result.successes]
    assert not told
    assert result.counts.total() == ATTACKS
    assert len(result.counts) > 12


def test_planted_holes_are_found(tmp_path: Path) -> None:
    assert len(HOLES) >= 12
    for number, hole in enumerate(PLANTED):
        home = tmp_path / str(number)
        home.mkdir()
        assert find(plant(f"sqlite:///{home}/clew.db", home, SEED), SEED, 300, hole), f"nothing found: {hole}"
