"""The server of one page: predictions, lessons, and what makes it safe to run beside other pages.

Requests are taken from pages of this server alone: the Host and Origin headers are checked, so that
no other web page can teach or read. A browser is recognised by a random cookie.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import onlinels
from teach.drawing import normalise
from teach.session import Session, read_label, read_model

PAGE = Path(__file__).parent / "page"
COOKIE = "onlinels_teach"
MAX_BODY, MAX_FILE = 200_000, 20_000_000
"""Bytes of a request, and of a model that is uploaded."""
MAX_BROWSERS = 50
PER_SECOND = {"/api/predict": 100}
"""Requests a second that are answered, by path."""
CHANGES_PER_SECOND = 20
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Browsers:
    """The sessions of all browsers, in folders named by number and cookie; one at a time works."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, Lock()
        self._open: dict[str, Session] = {}

    def folders(self) -> dict[str, tuple[int, Path]]:
        """Return the number and the folder of every browser, by cookie."""
        parts = (each.name.partition("-") + (each,) for each in sorted(self.folder.glob("*-*")))
        return {key: (int(number), path) for number, _, key, path in parts}

    def session(self, key: str) -> tuple[int, Session]:
        """Return the number and the session of a browser; a new one gets a folder."""
        folders = self.folders()
        if key not in folders:
            if len(folders) >= MAX_BROWSERS:
                raise ValueError(f"{MAX_BROWSERS} browsers came. Delete some in {self.folder}.")
            number = max((each for each, _ in folders.values()), default=0) + 1
            folders[key] = number, self.folder / f"{number:03}-{key}"
            folders[key][1].mkdir(parents=True)
        number, folder = folders[key]
        if key not in self._open:
            self._open[key] = Session(folder)
        return number, self._open[key]

    def forget(self, key: str) -> None:
        """Read a session from its journal again when it is next asked for."""
        self._open.pop(key, None)


def state(browsers: Browsers, key: str, last: int = 60) -> dict[str, Any]:
    """Return what the page shows of a browser's session."""
    number, session = browsers.session(key)
    lessons = session.lessons
    labels = [each.label for each in lessons.values()]
    return {
        "browser": number,
        "start": session.start,
        "classes": [[label, labels.count(label)] for label in session.model.classes],
        "images": session.model.count,
        "hits": [int(each.guess == each.label) for each in lessons.values()],
        "lessons": [
            {"id": each, "label": lesson.label, "guess": lesson.guess, "image": _text(lesson.image)}
            for each, lesson in [*lessons.items()][-last:]
        ],
        "others": [
            {
                "browser": each,
                "images": browsers.session(other)[1].own.count,
                "merged": session.merged[each].count if each in session.merged else 0,
            }
            for other, (each, _) in browsers.folders().items()
            if other != key
        ],
    }


def predict(browsers: Browsers, key: str, data: dict[str, Any]) -> dict[str, Any]:
    image = normalise(data.get("strokes"))
    model = browsers.session(key)[1].model
    chances = model.predict_proba_one(image) if model.classes else {}
    return {"image": _text(image), "chances": [[label, p] for label, p in chances.items()]}


def change(browsers: Browsers, key: str, data: dict[str, Any]) -> None:
    """Carry out what a page asks for."""
    session, do, number = browsers.session(key)[1], data.get("do"), data.get("number")
    if do == "teach":
        session.teach(normalise(data.get("strokes")), read_label(data.get("label")))
    elif do == "take back" and type(number) is int:
        session.take_back(number)
    elif do == "merge":
        others = {each: other for other, (each, _) in browsers.folders().items() if other != key}
        if number not in others:
            raise ValueError(f"Browser {number!r:.20} has taught nothing.")
        session.merge(number, browsers.session(others[number])[1])
    elif do == "part" and type(number) is int:
        session.part(number)
    elif do == "start" and data.get("with") in ("empty", "digits"):
        session.start_over(data["with"])
    else:
        raise ValueError(f"The request is {str(data)[:50]}, expected a change that the page asks for.")


def make_app(folder: Path, changes_per_second: int = CHANGES_PER_SECOND) -> Starlette:
    """Return the application, which keeps all lessons in a folder."""
    browsers, times = Browsers(folder), dict[str, deque[float]]()

    async def guard(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Refuse other pages and too many requests, and add the headers of safety."""
        path, response = request.url.path, None
        if request.method != "GET":
            if request.headers.get("origin") != f"http://{request.headers['host']}":
                response = message("Other pages may not teach here.", 403)
            most = PER_SECOND.get(path, changes_per_second)
            recent, now = times.setdefault(path, deque(maxlen=most)), monotonic()
            if len(recent) == most and now - recent[0] < 1.0:
                response = message("Too many requests. Wait for a second.", 429)
            recent.append(now)
        response = response or await call_next(request)
        response.headers.update(HEADERS)
        return response

    def work(request: Request, function: Callable[..., Any], *data: Any) -> Any:
        key = request.cookies.get(COOKIE, "")
        if not re.fullmatch("[0-9a-f]{32}", key):
            raise HTTPException(403, "Open the page first; it needs a cookie.")
        with browsers.lock:
            try:
                return function(browsers, key, *data)
            except ValueError:
                raise
            except Exception:
                browsers.forget(key)  # The journal knows what has happened.
                raise

    async def page(request: Request) -> Response:
        response = FileResponse(PAGE / "index.html")
        key = request.cookies.get(COOKIE) or secrets.token_hex(16)
        response.set_cookie(COOKIE, key, 10**8, httponly=True, samesite="strict")
        return response

    async def get_state(request: Request) -> Response:
        last = request.query_params.get("last", "60")
        most = int(last) if re.fullmatch("[0-9]{1,6}", last) else 60
        return JSONResponse(await run_in_threadpool(work, request, state, max(1, most)))

    async def post_predict(request: Request) -> Response:
        data = await json_of(request)
        return JSONResponse(await run_in_threadpool(work, request, predict, data))

    async def post_change(request: Request) -> Response:
        await run_in_threadpool(work, request, change, await json_of(request))
        return await get_state(request)

    async def get_model(request: Request) -> Response:
        content = await run_in_threadpool(
            work, request, lambda _, key: onlinels.dumps(browsers.session(key)[1].model)
        )
        kept = {"Content-Disposition": 'attachment; filename="taught.npz"'}
        return Response(content, media_type="application/octet-stream", headers=kept)

    async def post_model(request: Request) -> Response:
        model = await run_in_threadpool(read_model, await body_of(request, MAX_FILE))
        await run_in_threadpool(
            work, request, lambda _, key: browsers.session(key)[1].start_over("file", model)
        )
        return await get_state(request)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/state", get_state),
            Route("/api/predict", post_predict, methods=["POST"]),
            Route("/api/change", post_change, methods=["POST"]),
            Route("/api/model", get_model),
            Route("/api/model", post_model, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, ["127.0.0.1", "localhost"], www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=guard),
        ],
        exception_handlers={
            ValueError: lambda _, error: message(str(error), 400),
            HTTPException: lambda _, error: message(error.detail, error.status_code),
            OSError: lambda _, error: message(f"Not saved: {error}", 500),
        },
    )


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request, unless it is too large."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise HTTPException(413, f"More than {most:,} bytes came, expected at most these.")
    return bytes(content)


async def json_of(request: Request) -> dict[str, Any]:
    content = await body_of(request, MAX_BODY)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ValueError("The body of the request is not a JSON object.")
    return data


def message(text: str, status: int) -> Response:
    return JSONResponse({"message": text}, status)


def _text(image: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(image.tobytes()).decode()
