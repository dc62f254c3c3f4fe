"""Serves a store on a port until it is killed; says `serving` when it does."""

import sys
import threading

from clew import app
from clew.server.http.application import Application
from clew.server.http.listener import listen
from clew.server.http.uvicorn_server import make_server

made = listen("127.0.0.1", int(sys.argv[2]))
running = make_server(Application(app.authenticator(app.settings(store=sys.argv[1], home=sys.argv[3]))))


def tell() -> None:
    while not running.started:
        threading.Event().wait(0.005)
    print("serving", flush=True)


threading.Thread(target=tell, daemon=True).start()
running.run(sockets=[made])
