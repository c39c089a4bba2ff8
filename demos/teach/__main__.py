"""Teach a classifier in a browser, by drawings or photos, one at a time.

The page shows the probabilities of the classes while you draw. Press a class to teach it the
drawing, or type the name of a new class. You can take back any lesson, and merge what two browsers
have taught. The server runs on this computer and needs no internet. It writes every lesson, with
its drawing, to the disk before the page confirms it.

A photo comes from a file or a camera. Photos of 32x24 pixels teach a small network. With --network,
a pretrained network embeds photos of 128x96 pixels (onnxruntime is needed), which recognises things
after far fewer photos; the guide's page on images makes its file.

python demos/teach
python demos/teach --network lite0.onnx
python demos/teach --host 0.0.0.0           # and open the address on a phone in the same network
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import webbrowser
from contextlib import suppress
from ipaddress import ip_address
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
    add("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for other computers")
    add("--network", type=Path, help="pretrained network for photos, an .onnx file")
    add("--no-browser", action="store_true", help="print the address only")
    add("--data", type=Path, default=folder, help="folder of lessons (%(default)s)")
    arguments = parser.parse_args(argv)
    try:
        arguments.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        listener = socket.create_server((arguments.host, arguments.port))
        host, port = listener.getsockname()
        code = "" if ip_address(host).is_loopback else secrets.token_urlsafe(12)
        app = make_app(arguments.data, network=arguments.network, code=code)
    except (OSError, OverflowError, ValueError) as error:
        remedy = "Choose another --host, --port (0: any free one), --data or --network."
        parser.error(f"{error}. {remedy}")
    shown = own_address() if ip_address(host).is_unspecified else host
    address = f"http://{shown}:{port}"
    if code:
        address += f"/{code}/"
        print(
            "Warning: other computers can reach this server, over a connection that is not "
            "encrypted. Whoever has the address with its code can teach and read: keep it to "
            "yourself, and use this in networks that you trust.",
            flush=True,
        )
    print(f"Teach at {address} (Ctrl-C ends). Lessons are kept in {arguments.data}", flush=True)
    if not arguments.no_browser:
        # The socket listens: a browser waits for the answer, and one in a terminal blocks.
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    # The application has no lifespan; without one, Ctrl-C prints nothing.
    config = uvicorn.Config(app, log_level="warning", lifespan="off", limit_concurrency=100)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listener])


def own_address() -> str:
    """Return this computer's address in its network; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # An address for documentation.
        return str(probe.getsockname()[0])
    return socket.gethostname()


if __name__ == "__main__":
    main()
