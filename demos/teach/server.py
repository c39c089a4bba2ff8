"""The server of the page: predictions, changes, and what keeps other web pages out.

The server answers requests from its own page only: it checks the headers Host and Origin. Where
other computers reach it, every address begins with a random code, and others are refused. It
recognises a browser by a random cookie. One lock for drawings and one for photos protect all
models.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

import onlinels
from teach.kinds import DRAWINGS, Kind, photos
from teach.session import Session, check_classes, empty, read_model

PAGE, COOKIE = Path(__file__).parent / "page", "onlinels_teach"
MAX_BODY, MAX_FILE, MAX_BROWSERS = 200_000, 20_000_000, 50
"""Bytes of a request and of an uploaded model; folders of browsers."""
PER_SECOND, SAVED_EVERY = 200, 100
"""Drawings, changes and uploads answered in a second; events from one save to the next."""
MAX_SUSPECTS = 8
"""Lessons that are probably named wrong, of which the page shows so many."""
POST: dict[str, Any] = {"methods": ["POST"], "max_body_size": MAX_BODY}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Browsers:
    """The sessions of all browsers, in folders named by number and cookie, and their requests."""

    def __init__(self, folder: Path, kind: Kind = DRAWINGS) -> None:
        self.folder, self.kind, self.lock = folder, kind, Lock()
        folders = sorted(folder.glob("[0-9]" * 3 + "-" + "[0-9a-f]" * 32))
        self.sessions = {each.name[4:]: Session(each, kind) for each in folders}
        empty(kind)  # Draws the input weights now, not at the first request.

    def _session(self, cookie: str) -> Session:
        """Return the session of a browser; a new one gets a number and a folder."""
        session = self.sessions.get(cookie)
        if session is None and len(self.sessions) >= MAX_BROWSERS:
            raise ValueError(f"{MAX_BROWSERS} browsers came. Delete folders in {self.folder}.")
        if session is None or session.in_doubt:
            number = 1 + max((each.number for each in self.sessions.values()), default=0)
            folder = session.folder if session else self.folder / f"{number:03}-{cookie}"
            folder.mkdir(parents=True, exist_ok=True)
            session = self.sessions[cookie] = Session(folder, self.kind)
        return session

    def work(self, cookie: str, function: Callable[..., Any], *data: Any) -> Any:
        """Call a function with these browsers and a session, alone."""
        with self.lock:
            return function(self, self._session(cookie), *data)

    def save(self, cookie: str) -> None:
        """Save a model if a save is due; other requests do not wait for the disk."""
        with self.lock:
            session = self._session(cookie)
            if session.n_events < session.n_saved + SAVED_EVERY:
                return
            session.n_saved = session.n_events
            saved = {"n_events": session.n_saved, "own": deepcopy(session.own)}
        onlinels.save(saved, session.folder / "own.npz")

    async def page(self, request: Request) -> Response:
        """Send the page, with a cookie for browsers that have none."""
        response = FileResponse(PAGE / "index.html")
        cookie = cookie_of(request) or secrets.token_hex(16)
        response.set_cookie(COOKIE, cookie, 10**8, httponly=True, samesite="lax")
        return response

    async def answer(self, function: Callable[..., Any], data: Any, request: Request) -> Response:
        """Send what a function returns for data, and save the model if a save is due."""
        cookie, last = cookie_of(request), int(request.query_params.get("last", 60))
        if not cookie:
            raise HTTPException(403, "Open the page first; it needs a cookie.")
        response: Response
        response = await run_in_threadpool(self.work, cookie, function, data, last)
        response.background = BackgroundTask(self.save, cookie)
        return response

    async def post(self, function: Callable[..., Any], request: Request) -> Response:
        """Send what a function returns for the JSON data of a request."""
        return await self.answer(function, await request.json(), request)

    async def upload(self, request: Request) -> Response:
        """Start over with the model in a file."""
        model = await run_in_threadpool(read_model, self.kind, await request.body())
        return await self.answer(change, {"model": model}, request)

    def routes(self) -> list[BaseRoute]:
        """Return the page and what it asks for, below an address that ends with "/"."""
        return [
            Route("/", self.page),
            Route("/api/state", partial(self.answer, state, None)),
            Route("/api/suspects", partial(self.answer, suspects, None)),
            Route("/api/predict", partial(self.post, predict), **POST),
            Route("/api/change", partial(self.post, change), **POST),
            Route("/api/model", partial(self.answer, download, None)),
            Route("/api/model", self.upload, **POST | {"max_body_size": MAX_FILE}),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]


class Guard:
    """What keeps other pages, too many requests, and people without the code out."""

    def __init__(self, per_second: int, code: str) -> None:
        self.times, self.code = deque[float](maxlen=per_second), code

    async def answer(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Refuse what may not be answered, and add headers for the browser."""
        response = self._refusal(request) or await call_next(request)
        response.headers.update(HEADERS)
        return response

    def _refusal(self, request: Request) -> Response | None:
        first, _, _ = request.url.path.removeprefix("/").partition("/")
        if self.code and not secrets.compare_digest(first.encode(), self.code.encode()):
            return message("Open the address that the server printed, with its code.", 403)
        if request.method == "GET":
            return None
        if request.headers.get("origin") != f"http://{request.headers['host']}":
            return message("Other pages may not teach here.", 403)
        if len(self.times) == self.times.maxlen and monotonic() - self.times[0] < 1.0:
            return message("Too many requests. Wait for a second.", 429)
        self.times.append(monotonic())
        return None


def state(browsers: Browsers, session: Session, _: Any, last: int) -> Response:
    """Return what the page shows, with the `last` lessons."""
    lessons = [*session.lessons.items()][-last:]
    merged = {n: model.count for n, model in session.merged.items()}
    others = [each for each in browsers.sessions.values() if each is not session]
    shown = {
        "browser": session.number,
        "shape": session.kind.shape,
        "classes": session.model.classes,
        "hits": [each.guess == each.label for each in session.lessons.values()],
        "lessons": [{"id": n} | each.shown(session.kind) for n, each in lessons],
        "others": [(each.number, each.own.count, merged.get(each.number, 0)) for each in others],
    }
    return JSONResponse(shown)


def predict(_browsers: Browsers, session: Session, sent: Any, _last: int) -> Response:
    """Return the image that the model gets, and the probabilities of the classes."""
    image = session.kind.read(sent)
    row = session.kind.row(image)
    chances = session.model.predict_proba_one(row) if session.model.classes else {}
    return JSONResponse(session.kind.shown(image) | {"chances": [*chances.items()]})


def suspects(_browsers: Browsers, session: Session, _data: Any, _last: int) -> Response:
    """Return the lessons that are probably named wrong, the worst first, and other names."""
    found = session.suspects()[:MAX_SUSPECTS]
    shown = (session.lessons[number].shown(session.kind) for number, *_ in found)
    pairs = zip(found, shown, strict=True)
    return JSONResponse([{"id": each[0], "other": each[2]} | lesson for each, lesson in pairs])


def download(_browsers: Browsers, session: Session, _data: Any, _last: int) -> Response:
    """Return the model as a file."""
    return Response(onlinels.dumps(session.model), media_type="application/octet-stream")


def change(browsers: Browsers, session: Session, data: Any, last: int) -> Response:
    """Carry out what a page asks for, and return what it shows then."""
    others = {each.number: each for each in browsers.sessions.values() if each is not session}
    match data:
        case {"do": "teach", "label": str(label)}:
            label = label.strip()
            check_classes((*session.model.classes, label))
            image = session.kind.read(data.get("image"))
            guess = session.model.predict_one(session.kind.row(image))
            session.commit("teach", label, guess, b64encode(image.tobytes()).decode())
        case {"do": "correct", "number": int(number), "label": str(label)} if (
            number in session.lessons
        ):
            label = label.strip()
            check_classes((*session.model.classes, label))
            session.commit("correct", number, label)
        case {"do": "take back", "number": int(number)} if number in session.lessons:
            session.commit("take back", number)
        case {"do": "part", "number": int(number)} if number in session.merged:
            session.commit("part", number)
        case {"do": "merge", "number": int(number)} if number in others:
            check_classes((*session.model.classes, *others[number].own.classes))
            session.commit("merge", number, copy=others[number].own)
        case {"do": "start", "label": str(label)} if label in session.kind.starts:
            session.commit("start", label)
        case {
            "model": onlinels.ShallowConvClassifier() | onlinels.LeastSquaresClassifier() as model
        }:
            session.commit("start", copy=model)
        case _:
            raise ValueError("This is already done, or not possible.")
    return state(browsers, session, data, last)


def make_app(
    folder: Path, per_second: int = PER_SECOND, network: Path | None = None, code: str = ""
) -> Starlette:
    """Return the application, which keeps all lessons in a folder.

    Parameters
    ----------
    folder : Path
        Folder of lessons; those of photos are in a folder of it.
    per_second : int
        Drawings, photos, changes and uploads answered in a second.
    network : Path, optional
        A pretrained network for photos, a file in ONNX's format.
    code : str
        With a code, the page is at /code/, for other computers too, and nothing is elsewhere.
    """
    of_photos = photos(network)
    browsers, others = Browsers(folder), Browsers(folder / of_photos.name, of_photos)
    routes = [Mount("/photos", routes=others.routes()), *browsers.routes()]
    # Who knows the code may use any name of this computer.
    hosts = ["*"] if code else ["127.0.0.1", "localhost"]
    return Starlette(
        routes=[Mount(f"/{code}", routes=routes)] if code else routes,
        middleware=[
            Middleware(TrustedHostMiddleware, hosts, www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=Guard(per_second, code).answer),
        ],
        exception_handlers={
            ValueError: lambda _, error: message(str(error), 400),
            # Lists within lists within lists: of JSON that is read, or of an error message.
            RecursionError: lambda _, error: message("The request nests too many lists.", 400),
            HTTPException: lambda _, error: message(error.detail, error.status_code),
            OSError: lambda _, error: message(f"Not saved: {error}", 500),
        },
    )


def cookie_of(request: Request) -> str:
    """Return the browser's cookie, or nothing if it has none of ours."""
    cookie = request.cookies.get(COOKIE, "")
    return cookie if re.fullmatch("[0-9a-f]{32}", cookie) else ""


def message(text: str, status: int) -> Response:
    return JSONResponse({"message": text}, status)
