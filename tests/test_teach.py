"""The demo of teaching by hand: drawings, lessons, the journal, and who may teach."""

import itertools
import json
import re
from base64 import b64encode
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import onlinels

pytest.importorskip("sklearn")
pytest.importorskip("starlette", reason="needs starlette: pip install '.[demos]'")
pytest.importorskip("httpx2", reason="needs httpx2: pip install '.[test]'")

from starlette.testclient import TestClient
from teach import server
from teach import session as sessions
from teach.drawing import digits, normalise
from teach.kinds import DRAWINGS, blank
from teach.photo import LARGE, SMALL
from teach.server import make_app

from support.small_teach import small_network

SEVEN = [[[200, 100], [700, 150], [400, 900]]]
CROSS = [[[100, 100], [900, 900]], [[100, 900], [900, 150]]]
ADDRESS = "http://127.0.0.1:8000"
TAUGHT = {"do": "teach", "label": "7", "image": SEVEN}


@pytest.fixture(scope="module", autouse=True)
def small():
    with small_network():
        yield


@pytest.fixture
def client(tmp_path):
    """Return a browser at a server of its own."""
    return browser(make_app(tmp_path))


def browser(app, number=1, folder=""):
    """Return a client that sends what browsers send, with the cookie of a browser."""
    headers = {"origin": ADDRESS, "cookie": f"onlinels_teach={number:032x}"}
    base_url = ADDRESS + folder
    return TestClient(app, base_url=base_url, headers=headers, raise_server_exceptions=False)


def change(client, do, status=200, **data):
    answer = client.post("/api/change", json={"do": do} | data)
    assert answer.status_code == status, answer.text
    return answer.json()


def teach(client, label, image, status=200):
    return change(client, "teach", status, label=label, image=image)


def state_of(client):
    return client.get("/api/state").json()


def model_of(client):
    return onlinels.loads(client.get("/api/model").content)


def chances(client, image):
    return dict(client.post("/api/predict", json=image).json()["chances"])


# -- drawings -------------------------------------------------------------------------------------


def test_drawings_and_digits_have_the_size_and_the_centre_of_mnist():
    places = np.arange(28) + 0.5
    for image in (normalise(SEVEN), *digits()[0][:50]):
        rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
        assert image.shape == (28, 28)
        assert 18 <= rows[-1] - rows[0] <= 20
        assert columns[-1] - columns[0] <= 20
        centre = [np.average(places, weights=image.sum(axis=axis)) for axis in (1, 0)]
        np.testing.assert_allclose(centre, 14.0, atol=0.2)
    assert normalise(SEVEN).max() == 255
    assert [len(each) for each in digits()] == [1797, 1797]


def test_neither_place_nor_size_nor_speed_changes_the_image():
    points = np.array(SEVEN[0])
    between = np.linspace(points[:-1], points[1:], 9).transpose(1, 0, 2).reshape(-1, 2)
    for other in (points * 0.5 + 200.0, points - 80.0, between):
        difference = normalise(SEVEN).astype(int) - normalise([other.tolist()])
        assert abs(difference).mean() < 2.0


def test_a_dot_stays_a_dot_and_a_line_a_line():
    dot, line = normalise([[[700, 300]]]), normalise([[[500, 100], [500, 900]]])
    assert (dot > 0).sum() < 20
    assert (line.any(axis=1).sum(), line.any(axis=0).sum()) in ((20, 3), (20, 4))


def test_what_is_no_drawing_is_refused():
    few = [None, 5, "ab", [], [[]], [[], [[1, 2]]], [[1, 2]], [[[1, 2, 3]]], [[["a", 1]]]]
    far = [[[[number, 1]]] for number in (None, 10**400, 1e9, float("nan"))]
    for strokes in (*few, *far, [[[1, 1]] * 3000] * 2):
        with pytest.raises(ValueError, match=r"strokes=.*expected lists of points"):
            normalise(strokes)


# -- lessons --------------------------------------------------------------------------------------


def drawing(seed):
    """Return a stroke of three segments."""
    return [np.random.default_rng(seed).integers(0, 1000, (4, 2)).tolist()]


@cache
def image_of(seed):
    return normalise(drawing(seed))


def assert_same(model, other):
    """Assert that two models know the same classes, and score images alike."""
    images = np.stack([image_of(seed) for seed in range(50, 60)])
    ours, theirs = (
        dict(zip(m.classes, m.scores_many(images).T, strict=True)) for m in (model, other)
    )
    assert ours.keys() == theirs.keys()
    for label, values in ours.items():
        np.testing.assert_allclose(values, theirs[label], rtol=1e-7, atol=1e-9)


WHO, NUMBERS, LABELS = st.sampled_from([1, 2]), st.integers(0, 5), st.sampled_from("abc")


class TwoBrowsers(RuleBasedStateMachine):
    """Two browsers that teach, take back, correct, merge, part, and start over, and a server.

    The model of each is that of its start, with its lessons, and those of the other at its merge:
    whatever is full, killed, or started twice, and whatever else lies in the folder.
    """

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        for name in ("001-notes", "2024-report"):
            (Path(self.folder.name) / name).mkdir()
        self.first = dict.fromkeys((1, 2), blank().empty())
        self.lessons, self.merged = {1: {}, 2: {}}, {1: None, 2: None}
        self.come_back()

    def come_back(self):
        app = make_app(Path(self.folder.name))
        self.clients = {who: browser(app, who) for who in (1, 2)}
        return [state_of(client) for client in self.clients.values()]

    @rule(who=WHO, label=LABELS, seed=NUMBERS)
    def teach(self, who, label, seed):
        """Teach a drawing; the number of its event is its name."""
        state = teach(self.clients[who], f" {label} ", drawing(seed))
        self.lessons[who][state["lessons"][-1]["id"]] = label, seed

    @rule(who=WHO)
    def teach_without_a_journal(self, who):
        """Teach what cannot be written to the disk: it is no lesson."""
        (folder,) = Path(self.folder.name).glob(f"00{who}-0*")
        journal = folder / "journal.jsonl"
        journal.touch()
        journal.rename(journal.with_suffix(".kept"))
        journal.mkdir()
        assert teach(self.clients[who], "a", CROSS, 500)["message"].startswith("Not saved")
        journal.rmdir()
        journal.with_suffix(".kept").rename(journal)

    @rule(who=WHO, label=LABELS, seed=NUMBERS)
    def teach_at_another_server(self, who, label, seed):
        """Teach at a server of the same folder: this one notices when it writes, and reads it."""
        state = teach(browser(make_app(Path(self.folder.name)), who), label, drawing(seed))
        self.lessons[who][state["lessons"][-1]["id"]] = label, seed
        message = teach(self.clients[who], label, drawing(seed), 500)["message"]
        assert message == "Not saved: another server has written to the journal"

    @rule(who=WHO, number=NUMBERS)
    def take_back(self, who, number):
        """Take a lesson back, if there is one."""
        status = 200 if number in self.lessons[who] else 400
        change(self.clients[who], "take back", status, number=number)
        self.lessons[who].pop(number, None)

    @rule(who=WHO, number=NUMBERS, label=LABELS)
    def correct(self, who, number, label):
        """Correct the label of a lesson, if there is one."""
        status = 200 if number in self.lessons[who] else 400
        change(self.clients[who], "correct", status, number=number, label=f"{label} ")
        known = self.lessons[who]
        known |= {each: (label, known[each][1]) for each in known if each == number}

    @rule(who=WHO)
    def merge(self, who):
        """Merge with the other; whoever merges twice counts no lesson twice."""
        state = change(self.clients[who], "merge", number=3 - who)
        self.merged[who] = deepcopy(self.lessons[3 - who])
        assert state["others"] == [[3 - who, *[len(self.merged[who])] * 2]]

    @rule(who=WHO)
    def part(self, who):
        """Undo a merge, if there is one."""
        change(self.clients[who], "part", 400 if self.merged[who] is None else 200, number=3 - who)
        self.merged[who] = None

    @rule(who=WHO, start=st.sampled_from(["empty", "digits"]))
    def start_over(self, who, start):
        """Begin with a model."""
        change(self.clients[who], "start", label=start)
        self.first[who] = DRAWINGS.starts[start]()
        self.lessons[who], self.merged[who] = {}, None

    @rule(who=WHO)
    def upload(self, who):
        """Begin with the model of the other, as a file."""
        content = self.clients[3 - who].get("/api/model").content
        assert self.clients[who].post("/api/model", content=content).status_code == 200
        self.first[who], self.lessons[who], self.merged[who] = onlinels.loads(content), {}, None

    @rule()
    def kill(self):
        """Start another server, from journals with a last line that a kill has torn."""
        before = [state_of(client) for client in self.clients.values()]
        for path in Path(self.folder.name).glob("*/journal.jsonl"):
            with path.open("ab") as journal:
                journal.write(b'["teach", "lost", nu')
        assert self.come_back() == before

    @invariant()
    def models_have_learnt_what_was_taught(self):
        """Compare with models that learn the same lessons, in one piece."""
        for who, client in self.clients.items():
            shown = {each["id"]: each["label"] for each in state_of(client)["lessons"]}
            assert shown == {number: label for number, (label, _) in self.lessons[who].items()}
            expected = deepcopy(self.first[who])
            for label, seed in (*self.lessons[who].values(), *(self.merged[who] or {}).values()):
                expected.learn_one(image_of(seed), label)
            model = model_of(client)
            assert model.count == expected.count
            assert_same(model, expected)

    def teardown(self):
        self.folder.cleanup()


def test_models_have_learnt_the_lessons_of_their_browsers_alone(monkeypatch):
    monkeypatch.setattr(server, "SAVED_EVERY", 2)
    steps = settings(max_examples=6, stateful_step_count=16)
    run_state_machine_as_test(TwoBrowsers, settings=steps)


def test_predictions_before_lessons_are_kept(client):
    assert chances(client, SEVEN) == {}
    for label, strokes in (("7", SEVEN), ("x", CROSS), ("7", SEVEN), ("x", CROSS), ("y", SEVEN)):
        state = teach(client, label, strokes)
    assert state["hits"] == [False, False, True, True, False]
    assert [each["guess"] for each in state["lessons"]] == [None, "7", "7", "x", "7"]
    assert sum(chances(client, CROSS).values()) == pytest.approx(1.0)
    assert len(client.get("/api/state?last=2").json()["lessons"]) == 2


def test_a_label_is_text_and_there_are_not_too_many(client, monkeypatch):
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u0631"
    labels = ["<script>alert(1)</script>", family, persian, "a" * 30, "null", "__proto__"]
    for label in labels:
        state = teach(client, label, SEVEN)
    assert state["classes"] == labels
    for label in ("", " ", "\0", "a\nb", "\u202eabc", "\u200d", "\ud800", "x" * 31, "\x1b[0m"):
        data = json.dumps(TAUGHT | {"label": label})
        answer = client.post("/api/change", content=data)
        assert (answer.status_code, answer.json()["message"][:5]) == (400, "Name ")
    monkeypatch.setattr(sessions, "MAX_CLASSES", 6)
    teach(client, "null", CROSS)
    refused = teach(client, "seventh", SEVEN, 400)
    assert refused["message"].startswith("There are 7 classes, expected 6")


# -- photos ---------------------------------------------------------------------------------------


def photo_of(seed, shape=SMALL):
    """Return a photo as a page sends it: stripes that lie at the left, or stand at the right."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    at_left, where = columns < shape[1] // 2, rows if seed % 2 else columns
    stripes = (where // 4 % 2 == 0) & (at_left if seed % 2 else ~at_left)
    pixels = np.random.default_rng(seed).integers(0, 60, shape) + 180 * stripes[..., None]
    return b64encode(pixels.astype(np.uint8).tobytes()).decode()


def test_photos_that_are_named_wrong_are_found_and_corrected(tmp_path):
    app = make_app(tmp_path)
    client = browser(app, folder="/photos")
    for seed in range(9):
        state = teach(client, "right" if seed == 4 else ("left", "right")[seed % 2], photo_of(seed))
    assert state["shape"] == state["lessons"][0]["shape"] == [24, 32, 3]
    assert state["lessons"][4]["image"] == photo_of(4)
    found = {each["id"]: each for each in client.get("/api/suspects").json()}
    assert (found[4]["label"], found[4]["other"]) == ("right", "left")
    state = change(client, "correct", number=4, label=" left ")
    assert [each["label"] for each in state["lessons"]] == ["left", "right"] * 4 + ["left"]
    assert state_of(browser(make_app(tmp_path), folder="/photos")) == state
    # Drawings are another model.
    assert state_of(browser(app))["classes"] == []


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Return a network in ONNX's format whose embedding is the colour of the left and the right."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[test]'")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[test]'")
    path = tmp_path_factory.mktemp("network") / "halves.onnx"
    network = """<ir_version: 9, opset_import: ["": 17]>
        network (float[n, 3, 96, 128] images) => (float[n, 6] embeddings) {
            halves = AveragePool<kernel_shape = [96, 64], strides = [96, 64]>(images)
            embeddings = Flatten(halves)
        }"""
    onnx.save(onnx.parser.parse_model(network), path)
    return path


def test_photos_are_embedded_by_a_network(tmp_path, network):
    client = browser(make_app(tmp_path, network=network), folder="/photos")
    for seed in range(8):
        state = teach(client, ("left", "right")[seed % 2], photo_of(seed, LARGE))
    assert state["hits"][2:] == [True] * 6
    assert (state["shape"], state["lessons"][0]["shape"]) == ([96, 128, 3], [32, 43, 3])
    change(client, "take back", number=0)
    seen = chances(client, photo_of(9, LARGE))
    assert max(seen, key=seen.get) == "right"
    model = model_of(client)
    assert (type(model), model.count) == (onlinels.LeastSquaresClassifier, 7)
    again = browser(make_app(tmp_path, network=network), folder="/photos")
    assert chances(again, photo_of(9, LARGE)) == pytest.approx(seen)
    uploaded = again.post("/api/model", content=client.get("/api/model").content)
    assert uploaded.json()["classes"] == ["left", "right"]
    # Lessons of another network, or of none, are others.
    assert state_of(browser(make_app(tmp_path), folder="/photos"))["classes"] == []
    bad = onlinels.LeastSquaresClassifier()
    bad.learn_one(np.ones(7), "a")
    assert again.post("/api/model", content=onlinels.dumps(bad)).status_code == 400
    (tmp_path / "bad.onnx").write_text("no network")
    for name in ("bad.onnx", "absent.onnx"):
        with pytest.raises(ValueError, match=f"{name} cannot be read as a network"):
            make_app(tmp_path, network=tmp_path / name)


# -- what is refused ------------------------------------------------------------------------------


def model_with(label="a", shape=(28, 28)):
    model = onlinels.ShallowConvClassifier.from_preset("digits", input_weights="gaussian")
    model = blank().empty() if shape == (28, 28) else model
    model.learn_one(np.ones(shape), label)
    return model


def test_files_that_are_no_models_change_nothing(client, tmp_path):
    before = teach(client, "7", SEVEN)
    others = onlinels.LeastSquaresClassifier(), {"a": 1.0}, model_with(shape=(8, 8))
    for content, message in (
        (b"no model", "cannot be read"),
        *((onlinels.dumps(each), "holds no model") for each in others),
        (onlinels.dumps(model_with("a" * 31)), "expected 1 to 30 readable characters"),
    ):
        answer = client.post("/api/model", content=content)
        assert (answer.status_code, message in answer.json()["message"]) == (400, True)
    # Drawings are no model of photos.
    photos = browser(make_app(tmp_path / "other"), folder="/photos")
    content = client.get("/api/model").content
    assert photos.post("/api/model", content=content).status_code == 400
    assert client.post("/api/model", content=itertools.repeat(b" " * 10**6, 21)).status_code == 413
    assert state_of(client) == before


def nested(depth, opened=b"[", closed=b"]"):
    return opened * depth + b"0" + closed * depth


TEACHES = b'{"do": "teach", "label": "a", "image": '
# As deep as JSON is read, but deeper than it is written by repr().
DEPTHS = 5, 100, 200, 300, 400, 500, 600, 800
BAD_JSON = [
    *(b"", b"{", b"\xff", b'"\xed\xa0\x80"', b"null", b"5", b"[]", b"1" * 5000),
    *(b"[" * 100_000, b'{"a":' * 30_000, TEACHES + b"[" * 90_000),
    *(nested(depth) for depth in DEPTHS),
    *(nested(depth, b'{"a":', b"}") for depth in DEPTHS),
    *(TEACHES + nested(depth) + b"}" for depth in DEPTHS),
    *(b"[[[%s, 1]]]" % each for each in (b"9" * 4000, b"NaN", b"-Infinity", b"1e999", b"[1]")),
    *(b'[["\\ud800"]]', b"[[1, [2, 3]]]", b"[[{}]]", b'{"image": 1, "image": 2}'),
    *(
        b'{"do": "merge", "number": %s}' % each
        for each in (b"9" * 4000, b"1", b"2", b"[]", b"true")
    ),
    *(b'{"do": "%s", "number": "x"}' % each for each in (b"part", b"take back", b"start", b"")),
    *(b'{"do": "part", "number": 1e999}', b'{"do": {"a": 1}, "number": []}'),
    *(b'{"do": "teach", "image": [[[1, 2]]]}', TEACHES + b"[]}"),
]


def test_bad_requests_change_nothing(client):
    before = teach(client, "7", SEVEN)
    for content in BAD_JSON:
        for path in ("/api/change", "/api/predict"):
            answer = client.post(path, content=content)
            assert (answer.status_code, bool(answer.json()["message"])) == (400, True), content[:50]
    for last in ("x", "1" * 5000):
        assert client.get(f"/api/state?last={last}").status_code == 400
    assert client.post("/api/change", content=b" " * 200_001).status_code == 413
    assert state_of(client) == before


def test_what_is_no_photo_or_no_correction_is_refused(tmp_path):
    client = browser(make_app(tmp_path), folder="/photos")
    before = teach(client, "nut", photo_of(0))
    for image in (None, 5, "", "AAAA", photo_of(0)[:-4], photo_of(0) + "AAAA", "é" * 3072, SEVEN):
        assert "expected 2304" in teach(client, "nut", image, 400)["message"]
    for number, label in ((1, "nut"), (0, ""), (0, 5), ("0", "nut"), (0, "a" * 31)):
        change(client, "correct", 400, number=number, label=label)
    assert state_of(client) == before


# -- who may teach --------------------------------------------------------------------------------


def test_no_other_page_can_teach_or_read(client):
    before = teach(client, "7", SEVEN)
    origins = ("http://evil.example", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "null", "")
    for origin in origins:
        answer = client.post("/api/change", json=TAUGHT, headers={"origin": origin})
        assert (answer.status_code, "Other pages" in answer.text) == (403, True)
    nobody = TestClient(client.app, base_url=ADDRESS)
    assert nobody.post("/api/change", json=TAUGHT).status_code == 403
    for cookie in ({}, {"cookie": "onlinels_teach=../../etc"}):
        assert nobody.get("/api/state", headers=cookie).status_code == 403
    # A name that somebody else points to this computer.
    for method in (client.get, client.post):
        assert method("/api/state", headers={"host": "evil.example:8000"}).status_code == 400
    page = nobody.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "samesite=lax" in page.headers["set-cookie"].lower()
    assert nobody.get("/api/state").json()["classes"] == []
    assert client.get("/page/../session.py").status_code == 404
    assert state_of(client)["lessons"] == before["lessons"]


def test_without_the_code_nothing_is_answered(tmp_path):
    code = "a-random_code"
    # Whatever name or address a phone calls the computer by.
    client = TestClient(make_app(tmp_path, code=code), base_url="http://192.168.1.7:8028")
    wrong = f"/{code}x", f"/x/{code}", "/%00", "/wrong", "", "/photos", "/api", "/page/app.js"
    for path, tail in itertools.product(wrong, ("", "/", "/api/state", "/api/change")):
        assert client.get(path + tail).status_code == 403, path + tail
        assert client.post(path + tail, json=TAUGHT).status_code == 403
    assert not [*tmp_path.iterdir()]
    client.headers["origin"] = "http://192.168.1.7:8028"
    for folder in ("", "/photos"):
        page = client.get(f"/{code}{folder}/")
        assert page.status_code == 200
        assert not re.search('(href|src)="/', page.text)
        assert client.get(f"/{code}{folder}/page/app.js").status_code == 200
    assert client.post(f"/{code}/api/change", json=TAUGHT).json()["classes"] == ["7"]
    evil = {"origin": "http://evil.example"}
    assert client.post(f"/{code}/api/change", json=TAUGHT, headers=evil).status_code == 403


def test_requests_and_browsers_are_limited(tmp_path, monkeypatch):
    client = browser(make_app(tmp_path, per_second=2))
    for now, status in ((0.0, 200), (0.5, 200), (0.9, 429), (1.0, 200), (1.4, 429), (1.5, 200)):
        monkeypatch.setattr(server, "monotonic", lambda now=now: now)
        assert client.post("/api/predict", json=SEVEN).status_code == status
    monkeypatch.setattr(server, "MAX_BROWSERS", 1)
    app = make_app(tmp_path)
    refused = browser(app, 2).get("/api/state")
    assert (refused.status_code, "browsers came" in refused.json()["message"]) == (400, True)
    assert teach(browser(app), "x", CROSS)["classes"] == ["x"]


# -- the disk -------------------------------------------------------------------------------------


def test_a_save_that_fails_loses_no_lesson(client, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "SAVED_EVERY", 1)
    monkeypatch.setattr(server.onlinels, "save", Mock(side_effect=OSError("no space left")))
    state = teach(client, "7", SEVEN)
    assert state["classes"] == ["7"]
    for each in (client, browser(make_app(tmp_path))):
        assert state_of(each) == state


def test_a_journal_that_cannot_be_read_is_named_and_kept(client, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "SAVED_EVERY", 2)
    teach(client, "7", SEVEN)
    change(client, "take back", number=0)
    (folder,) = tmp_path.iterdir()
    journal = folder / "journal.jsonl"
    text = journal.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line[:3] for line in lines] == [["teach", "7", None], ["take back", 0]]
    damaged = [
        text + line for line in ("{", '["pin", 3]', '["take back", 9]', '["teach", "x"]', "5")
    ]
    for content in ("", *(f"{each}\n[torn" for each in damaged)):
        journal.write_text(content)
        with pytest.raises(ValueError, match=f"{folder.name} is damaged .*restore or delete it"):
            make_app(tmp_path)
        assert journal.read_text() == content
