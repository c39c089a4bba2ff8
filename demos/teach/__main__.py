"""Teach signs to a classifier in a browser, one drawing at a time.

The page shows the probabilities of the classes while you draw. Press a class to teach it the
drawing, or type the name of a new class. You can take back any lesson, and merge what two browsers
have taught. The server runs on this computer and needs no network. It writes every lesson, with
its drawing, to the disk before the page confirms it.

python demos/teach
"""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from threading import Thread

import uvicorn

sys.path.append(str(Path(__file__).resolve().parents[1]))
# Threads of BLAS gain nothing here, and would wait for each other on a busy computer.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

from show import make_parser, not_negative

from teach.server import make_app


def main(argv: list[str] | None = None) -> None:
    parser = make_parser(__doc__)
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder, add = state / "onlinels-teach", parser.add_argument
    add("--port", type=not_negative, default=8028, help="port; 0 for any free one (%(default)s)")
    add("--no-browser", action="store_true", help="print the address only")
    add("--data", type=Path, default=folder, help="folder of lessons (%(default)s)")
    arguments = parser.parse_args(argv)
    try:
        arguments.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        listener = socket.create_server(("127.0.0.1", arguments.port))
        app = make_app(arguments.data)
    except (OSError, OverflowError, ValueError) as error:
        parser.error(f"{error}. Choose another --port (0: any free one) or --data.")
    address = "http://{}:{}".format(*listener.getsockname())
    print(f"Teach at {address} (Ctrl-C ends). Lessons are kept in {arguments.data}", flush=True)
    if not arguments.no_browser:
        # The socket listens: a browser waits for the answer, and one in a terminal blocks.
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    # The application has no lifespan; without one, Ctrl-C prints nothing.
    config = uvicorn.Config(app, log_level="warning", lifespan="off", limit_concurrency=100)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
