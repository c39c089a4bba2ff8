"""The server of the page: predictions, changes, and what keeps other web pages out.

Requests are answered if they come from a page of this server: the Host and the Origin header are
checked. A browser is recognised by a random cookie. All models share one lock.
"""

from __future__ import annotations

import json
import re
import secrets
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

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
from teach.session import Session, blank, check_classes, read_model

PAGE, COOKIE = Path(__file__).parent / "page", "onlinels_teach"
MAX_BODY, MAX_FILE, MAX_BROWSERS = 200_000, 20_000_000, 50
"""Bytes of a request and of an uploaded model; folders of browsers."""
PER_SECOND = 200
"""Drawings, changes and uploads answered in a second."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
Next = Callable[[Request], Awaitable[Response]]


class Browsers:
    """The sessions of all browsers, in folders named by number and cookie."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock, self._open = folder, Lock(), dict[str, Session]()
        blank()  # Draws the input weights now, not at the first request.

    def numbers(self) -> dict[int, str]:
        """Return the cookie of every browser by its number."""
        names = (each.name.partition("-") for each in self.folder.glob("[0-9]*-*"))
        return {int(number): cookie for number, _, cookie in sorted(names)}

    def session(self, cookie: str) -> Session:
        """Return the session of a browser; a new one gets a number and a folder."""
        if cookie not in self._open:
            numbers = self.numbers()
            number = next((n for n, each in numbers.items() if each == cookie), None)
            if number is None and len(numbers) >= MAX_BROWSERS:
                raise ValueError(f"{MAX_BROWSERS} browsers came. Delete some in {self.folder}.")
            folder = self.folder / f"{number or max(numbers, default=0) + 1:03}-{cookie}"
            folder.mkdir(parents=True, exist_ok=True)
            self._open[cookie] = Session(folder)
        return self._open[cookie]

    def sessions(self) -> dict[int, Session]:
        """Return the sessions of all browsers by number."""
        return {n: self.session(cookie) for n, cookie in self.numbers().items()}

    def work(self, cookie: str, function: Callable[..., Any], *data: Any) -> Any:
        """Call a function with these browsers and a session, alone."""
        with self.lock:
            try:
                return function(self, self.session(cookie), *data)
            except ValueError:
                raise
            except Exception:
                self._open.pop(cookie, None)  # Its journal knows what has happened.
                raise


def state(browsers: Browsers, session: Session, last: int) -> dict[str, Any]:
    """Return what the page shows, with the latest lessons."""
    sessions = browsers.sessions()
    merged = {n: model.count for n, model in session.merged.items()}
    return {
        "version": session.n_events,
        "browser": next(n for n, each in sessions.items() if each is session),
        "classes": session.model.classes,
        "hits": [each.guess == each.label for each in session.lessons.values()],
        "lessons": [{"id": n} | each._asdict() for n, each in [*session.lessons.items()][-last:]],
        "others": [
            (n, other.own.count, merged.get(n, 0))
            for n, other in sessions.items()
            if other is not session
        ],
    }


def predict(_: Browsers, session: Session, data: dict[str, Any]) -> dict[str, Any]:
    """Return the image of a drawing, and the probabilities of the classes."""
    image: Any = normalise(data.get("strokes"))
    chances = session.model.predict_proba_one(image) if session.model.classes else {}
    return {"image": b64encode(image).decode(), "chances": [*chances.items()]}


def change(browsers: Browsers, session: Session, data: dict[str, Any]) -> None:
    """Carry out what a page asks for."""
    do, number, label = (data.get(name) for name in ("do", "number", "label"))
    other: Any = browsers.sessions().get(number) if type(number) is int else None
    if do == "teach" and isinstance(label, str):
        label = label.strip()
        check_classes((*session.model.classes, label))
        image: Any = normalise(data.get("strokes"))
        guess = session.model.predict_one(image)
        session.commit("teach", label, guess, b64encode(image).decode())
    elif do in ("take back", "part") and type(number) is int:
        session.commit(do, number)
    elif do == "merge" and other not in (None, session):
        check_classes((*session.model.classes, *other.own.classes))
        session.commit_copy("merge", number, other.own)
    elif do == "start" and label in ("empty", "digits"):
        session.commit("start", label, None)
    else:
        raise ValueError(f"The page asks for {str(data)[:50]}, expected a change of the model.")


def make_app(folder: Path, per_second: int = PER_SECOND) -> Starlette:
    """Return the application, which keeps all lessons in a folder."""
    answers = Answers(folder, per_second)
    return Starlette(
        routes=[
            Route("/", answers.page),
            Route("/api/state", answers.state),
            Route("/api/predict", answers.predict, methods=["POST"]),
            Route("/api/change", answers.change, methods=["POST"]),
            Route("/api/model", answers.download),
            Route("/api/model", answers.upload, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, ["127.0.0.1", "localhost"], www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=answers.guard),
        ],
        exception_handlers={
            ValueError: lambda _, error: message(str(error), 400),
            HTTPException: lambda _, error: message(error.detail, error.status_code),
            OSError: lambda _, error: message(f"Not saved: {error}", 500),
        },
    )


class Answers:
    """Answers to the requests of pages."""

    def __init__(self, folder: Path, per_second: int) -> None:
        self.browsers, self.times = Browsers(folder), deque[float](maxlen=per_second)

    async def guard(self, request: Request, call_next: Next) -> Response:
        """Refuse other pages and too many requests, and add headers for the browser."""
        response = None
        if request.method != "GET":
            if request.headers.get("origin") != f"http://{request.headers['host']}":
                response = message("Other pages may not teach here.", 403)
            elif len(self.times) == self.times.maxlen and monotonic() - self.times[0] < 1.0:
                response = message("Too many requests. Wait for a second.", 429)
            else:
                self.times.append(monotonic())
        response = response or await call_next(request)
        response.headers.update(HEADERS)
        return response

    async def page(self, request: Request) -> Response:
        """Send the page, with a cookie for browsers that have none."""
        response = FileResponse(PAGE / "index.html")
        cookie = cookie_of(request) or secrets.token_hex(16)
        response.set_cookie(COOKIE, cookie, 10**8, httponly=True, samesite="lax")
        return response

    async def state(self, request: Request) -> Response:
        """Send what the page shows."""
        last = request.query_params.get("last", "")
        shown = int(last) if re.fullmatch("[1-9][0-9]{0,5}", last) else 60
        return JSONResponse(await self._work(request, state, shown))

    async def predict(self, request: Request) -> Response:
        """Send the probabilities for a drawing."""
        return JSONResponse(await self._work(request, predict, await json_of(request)))

    async def change(self, request: Request) -> Response:
        """Change the model, and send what the page shows then."""
        await self._work(request, change, await json_of(request))
        return await self.state(request)

    async def download(self, request: Request) -> Response:
        """Send the model as a file."""
        content = await self._work(request, lambda _, session: onlinels.dumps(session.model))
        return Response(content, media_type="application/octet-stream")

    async def upload(self, request: Request) -> Response:
        """Start over with the model in a file."""
        model = await run_in_threadpool(read_model, await body_of(request, MAX_FILE))
        await self._work(request, lambda _, session: session.commit_copy("start", "file", model))
        return await self.state(request)

    async def _work(self, request: Request, function: Callable[..., Any], *data: Any) -> Any:
        if not (cookie := cookie_of(request)):
            raise HTTPException(403, "Open the page first; it needs a cookie.")
        return await run_in_threadpool(self.browsers.work, cookie, function, *data)


def cookie_of(request: Request) -> str:
    """Return the browser's cookie, or nothing if it has none of ours."""
    cookie = request.cookies.get(COOKIE, "")
    return cookie if re.fullmatch("[0-9a-f]{32}", cookie) else ""


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request, unless it is too large."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise HTTPException(413, f"The file or drawing has over {most:,} bytes: too many.")
    return bytes(content)


async def json_of(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await body_of(request, MAX_BODY))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ValueError("The body of the request is no JSON object, expected one.")
    return data


def message(text: str, status: int) -> Response:
    return JSONResponse({"message": text}, status)
