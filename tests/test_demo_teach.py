"""The demo of teaching by hand: drawings, lessons, the journal, and who may teach."""

import io
import itertools
import json
import re
import zipfile
from base64 import b64encode

import numpy as np
import pytest

import onlinels

pytest.importorskip("sklearn")
pytest.importorskip("starlette", reason="needs starlette: pip install '.[demos]'")
pytest.importorskip("httpx2", reason="needs httpx2: pip install '.[test]'")

from starlette.testclient import TestClient
from teach import server
from teach import session as sessions
from teach.drawing import digits, normalise
from teach.kinds import blank
from teach.photo import LARGE, SMALL
from teach.server import make_app
from teach.session import Session

from support.small_teach import small_network

SEVEN = [[[200, 100], [700, 150], [400, 900]]]
CROSS = [[[100, 100], [900, 900]], [[100, 900], [900, 150]]]
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module", autouse=True)
def small():
    with small_network():
        yield


def drawing(seed):
    """Return a stroke of three segments."""
    return [np.random.default_rng(seed).integers(0, 1000, (4, 2)).tolist()]


def browser(app, address=ADDRESS, **headers):
    """Return a client with the page open, which sends what browsers send."""
    client = TestClient(
        app, base_url=address, headers={"origin": address} | headers, raise_server_exceptions=False
    )
    client.get("/")
    return client


def change(client, do, **data):
    answer = client.post("/api/change", json={"do": do} | data)
    assert answer.status_code == 200, answer.text
    return answer.json()


def teach(client, label, strokes):
    return change(client, "teach", label=label, image=strokes)


def chances(client, strokes):
    return dict(client.post("/api/predict", json=strokes).json()["chances"])


def scores(model):
    images = np.stack([normalise(drawing(seed)) for seed in range(50, 60)])
    return dict(zip(model.classes, model.scores_many(images).T, strict=True))


def assert_same(model, other):
    """Assert that two models know the same classes, and score images alike."""
    ours, theirs = scores(model), scores(other)
    assert ours.keys() == theirs.keys()
    for label, values in ours.items():
        np.testing.assert_allclose(values, theirs[label], rtol=1e-9)


def test_a_drawing_has_the_size_and_the_centre_of_mnist():
    image = normalise(SEVEN)
    rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    assert image.shape == (28, 28)
    assert image.max() == 255
    assert rows[-1] - rows[0] in (19, 20)
    assert columns[-1] - columns[0] < 16
    centre = [np.average(np.arange(28) + 0.5, weights=image.sum(axis=axis)) for axis in (1, 0)]
    np.testing.assert_allclose(centre, 14.0, atol=0.2)


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


def test_digits_are_centred_as_drawings_are():
    images, labels = digits()
    assert images.shape == (1797, 28, 28)
    assert set(labels) == set("0123456789")
    places = np.arange(28) + 0.5
    for image in images[:50]:
        assert np.average(places, weights=image.sum(axis=0)) == pytest.approx(14.0, abs=0.2)


@pytest.mark.parametrize(
    "strokes",
    [
        None,
        5,
        "ab",
        [],
        [[]],
        [[[10**400, 1]]],
        [[], [[1, 2]]],
        [[1, 2]],
        [[[1, 2, 3]]],
        [[["a", 1]]],
        [[[1, None]]],
        [[[1e9, 0]]],
    ],
    ids=repr,
)
def test_what_is_no_drawing_is_refused(strokes):
    with pytest.raises(ValueError, match=r"strokes=.*expected lists of points"):
        normalise(strokes)


def test_nan_and_too_many_points_are_refused():
    for strokes in ([[[float("nan"), 1]]], [[[1, 1]] * 3000] * 2):
        with pytest.raises(ValueError, match="expected lists of points"):
            normalise(strokes)


def test_the_third_of_five_lessons_is_unlearnt_exactly(tmp_path):
    app = make_app(tmp_path)
    client, other = browser(app), browser(app)
    for number, label in enumerate("abcab"):
        teach(client, label, drawing(number))
    state = change(client, "take back", number=2)
    for number, label in enumerate("abab"):
        never = teach(other, label, drawing([0, 1, 3, 4][number]))
    assert state["classes"] == never["classes"] == ["a", "b"]
    one, two = (onlinels.loads(each.get("/api/model").content) for each in (client, other))
    assert_same(one, two)
    assert chances(client, drawing(1)) == pytest.approx(chances(other, drawing(1)), abs=1e-9)
    again = client.post("/api/change", json={"do": "take back", "number": 2})
    assert "already done" in again.json()["message"]


def test_predictions_before_lessons_are_kept(tmp_path):
    client = browser(make_app(tmp_path))
    assert chances(client, SEVEN) == {}
    for label, strokes in (("7", SEVEN), ("x", CROSS), ("7", SEVEN), (" x ", CROSS), ("y", SEVEN)):
        state = teach(client, label, strokes)
    assert state["hits"] == [False, False, True, True, False]
    assert [each["guess"] for each in state["lessons"]] == [None, "7", "7", "x", "7"]
    assert state["classes"] == ["7", "x", "y"]
    assert sum(chances(client, CROSS).values()) == pytest.approx(1.0)
    assert len(client.get("/api/state?last=2").json()["lessons"]) == 2


def test_a_server_comes_back_with_every_lesson(tmp_path, monkeypatch):
    """After saves at any lesson, and with a line of the journal that a kill has torn."""
    monkeypatch.setattr(server, "SAVED_EVERY", 2)
    client = browser(make_app(tmp_path))
    change(client, "start", label="digits")
    for number, label in enumerate("abca"):
        teach(client, label, drawing(number))
        if number == 2:
            change(client, "take back", number=2)
        before = client.get("/api/state").json()
        (folder,) = tmp_path.iterdir()
        with (folder / "journal.jsonl").open("ab") as journal:
            journal.write(b'["teach", "lost", nu')
        old, client = client, browser(make_app(tmp_path), cookie=cookie_of(client))
        assert client.get("/api/state").json() == before
        assert_same(*(onlinels.loads(each.get("/api/model").content) for each in (old, client)))
    (folder / "journal.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"own\.npz is newer than.*restore or delete it"):
        make_app(tmp_path)


def cookie_of(client):
    return client.headers.get("cookie") or "; ".join(f"{n}={v}" for n, v in client.cookies.items())


def test_merging_twice_and_in_a_circle_counts_no_lesson_twice(tmp_path):
    app = make_app(tmp_path)
    one, two = browser(app), browser(app)
    lessons = [("a", drawing(0)), ("b", drawing(1)), ("c", drawing(2)), ("a", drawing(3))]
    for client, label_and_strokes in zip((one, one, two, two), lessons, strict=True):
        teach(client, *label_and_strokes)
    for client, number in ((one, 2), (two, 1), (one, 2), (two, 1)):
        state = change(client, "merge", number=number)
        assert state["others"] == [[number, 2, 2]]
    all_four = blank().empty()
    for label, strokes in lessons:
        all_four.learn_one(normalise(strokes), label)
    models = [onlinels.loads(each.get("/api/model").content) for each in (one, two)]
    for model in models:
        assert model.count == 4
        assert_same(model, all_four)
    # An own lesson is unlearnt after a merge, and a merge is taken back.
    change(one, "take back", number=1)
    change(one, "part", number=2)
    only = blank().empty()
    only.learn_one(normalise(lessons[0][1]), "a")
    one = browser(make_app(tmp_path), cookie=cookie_of(one))
    assert_same(onlinels.loads(one.get("/api/model").content), only)


def test_a_model_goes_from_browser_to_browser_as_a_file(tmp_path):
    app = make_app(tmp_path)
    one, two = browser(app), browser(app)
    for client, label, strokes in ((one, "7", SEVEN), (one, "x", CROSS), (two, "y", SEVEN)):
        teach(client, label, strokes)
    content = one.get("/api/model").content
    state = two.post("/api/model", content=content).json()
    assert (state["classes"], state["lessons"]) == (["7", "x"], [])
    assert chances(two, CROSS) == pytest.approx(chances(one, CROSS))
    two = browser(make_app(tmp_path), cookie=cookie_of(two))
    assert chances(two, CROSS) == pytest.approx(chances(one, CROSS))


def long_named():
    model = blank().empty()
    model.learn_one(normalise(SEVEN), "a" * 31)
    return model


def of_other_images():
    model = onlinels.ShallowConvClassifier.from_preset("digits", input_weights="gaussian")
    model.learn_one(np.ones((8, 8)), "a")
    return model


def deep(depth):
    """Return a file whose description is lists in lists."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", "[" * depth + "]" * depth)
    return file.getvalue()


BAD_FILES = [
    (lambda: b"no model", "cannot be read"),
    (lambda: deep(100_000), "cannot be read"),
    (lambda: deep(300), "cannot be read"),
    (lambda: onlinels.dumps(onlinels.LeastSquaresClassifier()), "holds no model"),
    (lambda: onlinels.dumps({"a": 1}), "holds no model"),
    (lambda: onlinels.dumps(of_other_images()), "holds no model"),
    (lambda: onlinels.dumps(long_named()), "expected 1 to 30 readable characters"),
]


def nested(depth, opened=b"[", closed=b"]"):
    return opened * depth + b"0" + closed * depth


BAD_JSON = [
    b"",
    b"{",
    b"\xff",
    b'"\xed\xa0\x80"',
    b"[" * 100_000,
    b'{"a":' * 30_000,
    b'{"do": "teach", "label": "a", "image": ' + b"[" * 90_000,
    # As deep as JSON is read, but deeper than it is written by repr().
    *(nested(depth) for depth in (5, 100, 200, 300, 400, 500, 600, 800)),
    *(nested(depth, b'{"a":', b"}") for depth in (5, 100, 200, 300, 400, 500, 600, 800)),
    *(
        b'{"do": "teach", "label": "a", "image": ' + nested(depth) + b"}"
        for depth in (5, 200, 400, 600)
    ),
    b"1" * 5000,
    b"[[[" + b"9" * 5000 + b", 1]]]",
    b"[[[" + b"9" * 4000 + b", 1]]]",
    b"[[[NaN, 1]]]",
    b"[[[1, -Infinity]]]",
    b"[[[1e999, 1]]]",
    b'[["\\ud800"]]',
    b'{"image": 1, "image": 2}',
    b"null",
    b"[[1, [2, 3]]]",
    b"[[[[1], [2]]]]",
    b"[[{}]]",
    b'{"do": "merge", "number": ' + b"9" * 4000 + b"}",
    b'{"do": "part", "number": 1e999}',
    b'{"do": {"a": 1}, "number": []}',
]


def test_bad_files_and_bad_requests_change_nothing(tmp_path):
    client = browser(make_app(tmp_path))
    before = teach(client, "7", SEVEN)
    for content, message in BAD_FILES:
        answer = client.post("/api/model", content=content())
        assert answer.status_code == 400
        assert message in answer.json()["message"]
    for data in (
        {"do": "teach", "image": SEVEN},
        {"do": "teach", "image": [], "label": "a"},
        *({"do": "teach", "image": SEVEN, "label": each} for each in ("", " ", "\0", "a" * 31)),
        *({"do": "merge", "number": each} for each in (1, 2, [], None, True)),
        *({"do": each, "number": "x"} for each in ("part", "take back", "start", "", [])),
        [],
        5,
    ):
        assert client.post("/api/change", json=data).status_code == 400
    for content in BAD_JSON:
        for path in ("/api/change", "/api/predict"):
            answer = client.post(path, content=content)
            assert (answer.status_code, bool(answer.json()["message"])) == (400, True), content[:50]
    for last in (b"x", b"1" * 5000):
        assert client.get(f"/api/state?last={last.decode()}").status_code == 400
    assert client.post("/api/change", content=b" " * 200_001).status_code == 413
    assert client.post("/api/model", content=itertools.repeat(b" " * 10**6, 21)).status_code == 413
    assert client.get("/api/state").json() == before


def test_there_are_at_most_fifty_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_CLASSES", 2)
    client = browser(make_app(tmp_path))
    for label in "aba":
        teach(client, label, SEVEN)
    answer = client.post("/api/change", json={"do": "teach", "image": SEVEN, "label": "c"})
    assert answer.json()["message"].startswith("There are 3 classes, expected 2")


def test_a_label_is_text(tmp_path):
    client = browser(make_app(tmp_path))
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u0631"
    labels = ["<script>alert(1)</script>", family, persian, "a" * 30, "null", "__proto__"]
    for label in labels:
        state = teach(client, label, SEVEN)
    assert state["classes"] == labels
    for label in ("a\nb", "\u202eabc", "\u200d", "\ud800", "x" * 10_000, "\x1b[0m"):
        data = json.dumps({"do": "teach", "image": SEVEN, "label": label})
        answer = client.post("/api/change", content=data)
        assert (answer.status_code, answer.json()["message"][:5]) == (400, "Name ")
    assert client.get("/api/state").json() == state


def test_no_other_page_can_teach_or_read(tmp_path):
    app = make_app(tmp_path)
    ours = browser(app)
    teach(ours, "7", SEVEN)
    data = {"do": "teach", "image": SEVEN, "label": "bad"}
    origins = ("http://evil.example", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "null", "")
    for origin in origins:
        answer = ours.post("/api/change", json=data, headers={"origin": origin})
        assert (answer.status_code, "Other pages" in answer.text) == (403, True)
    del ours.headers["origin"]
    assert ours.post("/api/change", json=data).status_code == 403
    # A name that somebody else points to this computer.
    for method in ("get", "post"):
        stranger = browser(app, "http://evil.example:8000")
        assert getattr(stranger, method)("/api/state").status_code == 400
    nobody = TestClient(app, base_url=ADDRESS)
    assert nobody.get("/api/state").status_code == 403
    nobody.cookies.set("onlinels_teach", "../../etc")
    assert nobody.get("/api/state").status_code == 403
    page = ours.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "samesite=lax" in page.headers["set-cookie"].lower()
    assert ours.get("/page/../session.py").status_code == 404
    assert ours.get("/api/state").json()["classes"] == ["7"]


def test_requests_are_limited(tmp_path):
    client = browser(make_app(tmp_path, per_second=3))
    answers = [client.post("/api/predict", json=SEVEN) for _ in range(4)]
    assert [each.status_code for each in answers[:3]] == [200] * 3
    # The fourth comes within the second, unless this machine was busy for a second.
    assert answers[3].status_code in (200, 429)


def photo_of(seed, shape=SMALL):
    """Return a photo as a page sends it: stripes that lie at the left, or stand at the right."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    at_left, where = columns < shape[1] // 2, rows if seed % 2 else columns
    stripes = (where // 4 % 2 == 0) & (at_left if seed % 2 else ~at_left)
    pixels = np.random.default_rng(seed).integers(0, 60, shape) + 180 * stripes[..., None]
    return b64encode(pixels.astype(np.uint8).tobytes()).decode()


def photos_of(app, **headers):
    """Return a client with the page of photos open."""
    client = browser(app, **headers)
    client.base_url = f"{ADDRESS}/photos"
    return client


def test_photos_are_corrected_and_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "SAVED_EVERY", 5)
    app = make_app(tmp_path)
    client, other = photos_of(app), photos_of(app)
    for seed in range(9):
        state = teach(client, "right" if seed == 4 else ("left", "right")[seed % 2], photo_of(seed))
        teach(other, ("left", "right")[seed % 2], photo_of(seed))
    assert state["shape"] == state["lessons"][0]["shape"] == [24, 32, 3]
    assert state["lessons"][4]["image"] == photo_of(4)
    found = {each["id"]: each for each in client.get("/api/suspects").json()}
    assert (found[4]["label"], found[4]["other"]) == ("right", "left")
    state = change(client, "correct", number=4, label=" left ")
    assert [each["label"] for each in state["lessons"]] == ["left", "right"] * 4 + ["left"]
    again = photos_of(make_app(tmp_path), cookie=cookie_of(client))
    assert again.get("/api/state").json() == state
    models = [onlinels.loads(each.get("/api/model").content) for each in (client, again, other)]
    images = np.random.default_rng(0).integers(0, 255, (5, 24, 32, 3))
    for model in models[:2]:
        np.testing.assert_allclose(
            model.scores_many(images), models[2].scores_many(images), rtol=1e-6, atol=1e-9
        )
    # Drawings are another model.
    assert browser(app, cookie=cookie_of(client)).get("/api/state").json()["classes"] == []


def test_what_is_no_photo_or_no_correction_is_refused(tmp_path):
    client = photos_of(make_app(tmp_path))
    before = teach(client, "nut", photo_of(0))
    for image in (None, 5, "", "AAAA", photo_of(0)[:-4], photo_of(0) + "AAAA", "é" * 3072, SEVEN):
        answer = client.post("/api/change", json={"do": "teach", "label": "nut", "image": image})
        assert (answer.status_code, "expected 2304" in answer.text) == (400, True)
    for number, label in ((1, "nut"), (0, ""), (0, 5), ("0", "nut"), (0, "a" * 31)):
        data = {"do": "correct", "number": number, "label": label}
        assert client.post("/api/change", json=data).status_code == 400
    drawings = browser(make_app(tmp_path / "other"))
    teach(drawings, "7", SEVEN)
    answer = client.post("/api/model", content=drawings.get("/api/model").content)
    assert answer.status_code == 400
    assert client.get("/api/state").json() == before


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Return a network in ONNX's format whose embedding is the colour of the left and the right."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[test]'")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[test]'")
    shapes = {"images": ["n", 3, 96, 128], "embeddings": ["n", 6]}
    kind = onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info(name, kind, shapes[name]) for name in shapes]
    nodes = [
        onnx.helper.make_node(
            "AveragePool", ["images"], ["halves"], kernel_shape=[96, 64], strides=[96, 64]
        ),
        onnx.helper.make_node("Flatten", ["halves"], ["embeddings"]),
    ]
    graph = onnx.helper.make_graph(nodes, "halves", values[:1], values[1:])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    )
    path = tmp_path_factory.mktemp("network") / "halves.onnx"
    onnx.save(model, path)
    return path


def test_photos_are_embedded_by_a_network(tmp_path, network):
    client = photos_of(make_app(tmp_path, network=network))
    for seed in range(8):
        state = teach(client, ("left", "right")[seed % 2], photo_of(seed, LARGE))
    assert state["hits"][2:] == [True] * 6
    assert (state["shape"], state["lessons"][0]["shape"]) == ([96, 128, 3], [32, 43, 3])
    change(client, "take back", number=0)
    seen = chances(client, photo_of(9, LARGE))
    assert max(seen, key=seen.get) == "right"
    model = onlinels.loads(client.get("/api/model").content)
    assert (type(model), model.count) == (onlinels.LeastSquaresClassifier, 7)
    again = photos_of(make_app(tmp_path, network=network), cookie=cookie_of(client))
    assert chances(again, photo_of(9, LARGE)) == pytest.approx(seen)
    uploaded = again.post("/api/model", content=client.get("/api/model").content)
    assert uploaded.json()["classes"] == ["left", "right"]
    # Lessons of another network, or of none, are others.
    other = photos_of(make_app(tmp_path), cookie=cookie_of(client))
    assert other.get("/api/state").json()["classes"] == []
    bad = onlinels.LeastSquaresClassifier()
    bad.learn_one(np.ones(7), "a")
    assert again.post("/api/model", content=onlinels.dumps(bad)).status_code == 400


def test_a_file_that_is_no_network_is_named(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[test]'")
    (tmp_path / "bad.onnx").write_text("no network")
    for name in ("bad.onnx", "absent.onnx"):
        with pytest.raises(ValueError, match=f"{name} cannot be read as a network"):
            make_app(tmp_path, network=tmp_path / name)


def test_without_the_code_nothing_is_answered(tmp_path):
    code = "a-random_code"
    app = make_app(tmp_path, code=code)
    # Whatever name or address a phone calls the computer by.
    client = TestClient(app, base_url="http://192.168.1.7:8028")
    data = {"do": "teach", "label": "7", "image": SEVEN}
    for path in (
        "",
        "/photos",
        "/api",
        "/page/app.js",
        "/wrong",
        f"/{code}x",
        f"/x/{code}",
        "/%00",
    ):
        for tail in ("", "/", "/api/state", "/api/change"):
            assert client.get(path + tail).status_code == 403, path + tail
            assert client.post(path + tail, json=data).status_code == 403
    assert not [*tmp_path.iterdir()]
    client.headers["origin"] = "http://192.168.1.7:8028"
    for folder in ("", "/photos"):
        page = client.get(f"/{code}{folder}/")
        assert page.status_code == 200
        assert not re.search('(href|src)="/', page.text)
        assert client.get(f"/{code}{folder}/page/app.js").status_code == 200
    assert client.post(f"/{code}/api/change", json=data).json()["classes"] == ["7"]
    other = client.post(f"/{code}/api/change", json=data, headers={"origin": "http://evil.example"})
    assert other.status_code == 403


def test_a_full_disk_is_no_lesson(tmp_path, monkeypatch):
    client = browser(make_app(tmp_path))
    before = teach(client, "7", SEVEN)
    (folder,) = tmp_path.iterdir()
    (folder / "journal.jsonl").rename(folder / "kept")
    (folder / "journal.jsonl").mkdir()
    data = {"do": "teach", "image": CROSS, "label": "x"}
    answer = client.post("/api/change", json=data)
    assert (answer.status_code, answer.json()["message"][:9]) == (500, "Not saved")
    (folder / "journal.jsonl").rmdir()
    (folder / "kept").rename(folder / "journal.jsonl")
    assert client.get("/api/state").json() == before


def test_a_save_that_fails_loses_no_lesson(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    client = browser(make_app(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(server, "SAVED_EVERY", 1)
        patch.setattr(server.onlinels, "save", fail)
        state = teach(client, "7", SEVEN)
    assert state["classes"] == ["7"]
    assert browser(make_app(tmp_path), cookie=cookie_of(client)).get("/api/state").json() == state


@pytest.mark.parametrize("line", ["{", '["pin", 3]', '["take back", 9]', '["teach", "x"]', "5"])
def test_a_journal_that_cannot_be_read_is_named_and_kept(tmp_path, line):
    client = browser(make_app(tmp_path))
    teach(client, "7", SEVEN)
    (folder,) = tmp_path.iterdir()
    journal = folder / "journal.jsonl"
    content = journal.read_text() + line + "\n[torn"
    journal.write_text(content)
    with pytest.raises(ValueError, match=f"{folder.name} is damaged .*restore or delete it"):
        make_app(tmp_path)
    assert journal.read_text() == content


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "2024-report.pdf").write_text("")
    (tmp_path / "001-notes").mkdir()
    client = browser(make_app(tmp_path))
    assert teach(client, "7", SEVEN)["browser"] == 1
    assert len([*tmp_path.iterdir()]) == 3


def test_there_are_at_most_fifty_browsers(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MAX_BROWSERS", 1)
    app = make_app(tmp_path)
    client = browser(app)
    teach(client, "7", SEVEN)
    refused = browser(app).get("/api/state")
    assert (refused.status_code, "browsers came" in refused.json()["message"]) == (400, True)
    assert teach(client, "x", CROSS)["classes"] == ["7", "x"]


def test_two_servers_of_one_folder_lose_no_lesson(tmp_path):
    client = browser(make_app(tmp_path))
    teach(client, "7", SEVEN)
    other = browser(make_app(tmp_path), cookie=cookie_of(client))
    teach(other, "x", CROSS)
    data = {"do": "teach", "image": SEVEN, "label": "y"}
    answer = client.post("/api/change", json=data)
    assert answer.json()["message"] == "Not saved: another server has written to the journal"
    assert teach(client, "y", SEVEN)["classes"] == ["7", "x", "y"]


def test_the_journal_is_readable(tmp_path):
    client = browser(make_app(tmp_path))
    teach(client, "7", SEVEN)
    change(client, "take back", number=0)
    (folder,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    assert [line[:3] for line in lines] == [["teach", "7", None], ["take back", 0]]
    assert Session(folder).lessons == {}
