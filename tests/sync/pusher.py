"""Pushes what a home shares; says `began` before and `done` after. Killed in between by test_crash.py."""

import sys
from pathlib import Path

from clew import app
from clew.service.replication import remotes
from clew.service.replication.push import Push

home = Path(sys.argv[1])
plane = app.connect(f"sqlite:///{home / 'clew.db'}", home=home, principal="person:me")
setting = remotes.named(home)
# A server that was just killed comes back.
remote = app.open_server(setting.url, remotes.key_of(home, setting.name), patience=30.0)
push = Push(plane.client.context, home, setting, remote)
push._room = 12_000  # Many requests, so that one is always under way.
print("ready", flush=True)
sys.stdin.readline()
print("began", flush=True)
push.run()
print("done", flush=True)
