"""The guide and README: links that lead somewhere, pages that are found, pictures made again."""

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from river.compose import FuncTransformer
from river.preprocessing import StandardScaler

import onlinels
import onlinels.export
from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    ShallowConvClassifier,
)

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "demos" / "guide"
PAGES = [ROOT / "README.md", ROOT / "demos" / "benchmarks" / "README.md", *GUIDE.glob("*.md")]
SCRIPTS = sorted({*(GUIDE / "plots").glob("*.py")} - {GUIDE / "plots" / "drawing.py"})
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page):
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page):
    """Return the anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(text_of(page)):
        if not link.startswith("http"):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.is_file(), link
            assert not anchor or anchor in anchors_of(target), link


def test_pages_pictures_and_public_names_are_all_there():
    index = (GUIDE / "index.md").read_text("utf-8")
    everything = "\n".join(page.read_text("utf-8") for page in PAGES)
    for page in GUIDE.glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.MULTILINE), page
    for picture in (GUIDE / "images").iterdir():
        assert f"images/{picture.name}" in everything
        assert picture.stat().st_size < 200_000
    assert sum(picture.stat().st_size for picture in (GUIDE / "images").iterdir()) < 600_000
    reference = (GUIDE / "api.md").read_text("utf-8")
    for name in [*onlinels.__all__, *onlinels.export.__all__, *onlinels.images.__all__]:
        assert name == "__version__" or re.search(rf"^ +{name}$", reference, re.MULTILINE), name


def test_commands_name_files_that_are_there():
    for page in PAGES:
        text = page.read_text("utf-8")
        for path in re.findall(r"(?:python |`)((?:demos|tests)/[\w/.]+)", text):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_the_page_of_tests_names_every_file():
    page = (GUIDE / "tests.md").read_text("utf-8")
    assert not [each.name for each in ROOT.glob("tests/test_*.py") if each.name not in page]


def test_names_of_the_maintainers_page_are_in_the_code():
    kinds, folders = (".py", ".c", ".h"), ("onlinels", "tests", ".ci")
    files = [path for each in folders for path in (ROOT / each).rglob("*") if path.suffix in kinds]
    code = {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}
    code |= {word for path in files for word in path.relative_to(ROOT).with_suffix("").parts}
    told = re.findall(r"`([^`\n]+)`", text_of(GUIDE / "inside.md"))
    assert not {word for name in told for word in re.findall(r"[a-zA-Z_]\w+", name)} - code


def test_errors_begin_as_the_page_says():
    errors, _ = (GUIDE / "errors.md").read_text("utf-8").split("## Warnings")
    said = re.findall(r"^\| `([^`]+)`", errors, re.MULTILINE)
    model, coded, scaled = LeastSquaresClassifier(), LeastSquaresClassifier(), StandardScaler()
    model.learn_one({"a": 1.0}, "x")
    coded.learn_many([{"a": 1.0}, {"a": 3.0}, {"a": 99_999_999.0}], ["x", "y", "x"])
    scaled.learn_one({"a": 1.0})
    scaled |= LeastSquaresClassifier()
    layer, keyed = HiddenLayer(5, "difference"), onlinels.StreamClassifier()
    keyed.predict_one({"a": 1.0}, key="order 7")
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    eights = ShallowConvClassifier.from_preset("digits", image_shape=(8, 8))
    function = FuncTransformer(abs) | LeastSquaresClassifier()
    calls = [
        lambda: model.learn_one({"a": "red"}, "x"),
        lambda: model.learn_many(pd.DataFrame({"a": ["red", "blue"]}), ["x", "y"]),
        lambda: model.learn_one({"a": b"red"}, "x"),
        lambda: model.learn_one(pd.Series({"a": 1.0}), "x"),
        lambda: model.learn_many(np.ones(2, dtype=[("a", float)]), ["x", "y"]),
        lambda: model.learn_one({"a": None}, "x"),
        lambda: model.learn_many(np.ones((2, 3)), ["x", "y"]),
        lambda: model.learn_one({"a": 1.0}, None),
        lambda: model.learn_many(frame, ["x"]),
        lambda: model.learn_many(frame, pd.Series(["x", "y"], index=[1, 0])),
        lambda: model.learn_one({"a": 1e200}, "x"),
        lambda: LeastSquaresClassifier(0.0, scaling="standard"),
        lambda: setattr(model, "scaling", None),
        lambda: model.merge(LeastSquaresClassifier(1.0)),
        lambda: onlinels.merge(scaled, scaled),
        lambda: keyed.predict_one({"a": 2.0}, key="order 7"),
        lambda: onlinels.StreamClassifier().learn_late("order 7", "x"),
        lambda: LeastSquaresClassifier(max_features=3).learn_many(np.ones((2, 9)), ["x", "y"]),
        lambda: LeastSquaresClassifier().learn_many(np.ones((2, 1_000_000)), ["x", "y"]),
        lambda: eights.learn_many(np.ones((3, 28, 28)), [1, 2, 3]),
        lambda: layer.transform_one({"a": 1.0}),
        lambda: model.unlearn_one({"a": 500.0}, "x"),
        lambda: onlinels.StreamClassifier().unlearn_one({"a": 1.0}, "x"),
        lambda: coded.unlearn_one({"a": 99_999_999.0}, "x"),
        lambda: onlinels.save(function, "unused"),
    ]
    for text, call in zip(said, calls, strict=True):
        with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
            call()
        assert str(raised.value).startswith(text)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_pictures_are_made_again(script, tmp_path):
    if script.stem == "time_per_row":
        pytest.importorskip("padasip", reason="padasip comes with the extra bench")
    output = tmp_path / "picture.png"
    subprocess.run([sys.executable, script, "--output", output], check=True, capture_output=True)
    assert output.read_bytes().startswith(b"\x89PNG")
    assert (GUIDE / "images" / f"{script.stem.replace('_', '-')}.png").is_file()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="sphinx comes with the extra docs")
    subprocess.run([sys.executable, GUIDE, "--output", tmp_path], check=True, capture_output=True)
    assert "LeastSquaresClassifier" in (tmp_path / "searchindex.js").read_text("utf-8")
    assert "\n\n</pre>" not in (tmp_path / "start.html").read_text("utf-8")
    for name in onlinels.__all__:
        assert name == "__version__" or (tmp_path / f"generated/onlinels.{name}.html").is_file()


def test_sketches_for_microcontrollers_compile(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    model, pump = LeastSquaresClassifier(), LeastSquaresRegressor()
    model.learn_many(np.eye(2), ["still", "running"])
    pump.learn_many(np.eye(2), [1.0, 2.0])
    onlinels.export.c(pump, tmp_path / "pump.h", learn=True)
    page = (GUIDE / "device.md").read_text("utf-8")
    sketches = re.findall(r"^```cpp\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for sketch in sketches:
        learns = re.search("fan_(learner|answers)_t", sketch)
        learn = {"learn": True, "rows": "int16", "room": 2} if learns else {}
        onlinels.export.c(model, tmp_path / "fan.h", **learn)
        (tmp_path / "sketch.cpp").write_text(sketch)
        arduino = ["-include", ROOT / "tests" / "support" / "arduino.h"]
        command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-fsyntax-only", *arduino]
        done = subprocess.run([*command, tmp_path / "sketch.cpp"], capture_output=True, check=False)
        assert done.stderr == b""
    assert len(sketches) == 5


@pytest.mark.parametrize("shape", [(8, 8), (16, 11), (12, 12, 1), (24, 24, 3), (30, 25, 4)])
def test_the_first_example_of_images_works_for_images_of_any_shape(shape):
    page = (GUIDE / "images.md").read_text("utf-8")
    lines = [each.source for each in doctest.DocTestParser().get_examples(page)]
    data = lines.index("images, labels = load_digits().images, load_digits().target\n")
    _, small, large, *_ = (
        n for n, line in enumerate(lines) if line.startswith(("model =", lines[data]))
    )
    images, labels = np.random.RandomState(0).random_sample((120, *shape)), ["upper", "lower"] * 60
    for half, row in enumerate((shape[0] // 4, 3 * shape[0] // 4)):
        images[half::2, row - 1 : row + 2, 2:5] += 2.0
    names = {"images": images, "labels": np.array(labels)}
    model = lines[large if shape[0] >= 20 else small]
    exec("".join([*lines[data - 3 : data], model, *lines[small + 1 : large]]), names)
    model, half = names["model"], names["half"]
    assert np.mean(model.predict_many(images[half:]) == names["labels"][half:]) > 0.9


def test_no_key_and_no_refused_event_harms_the_fleet_of_the_page(tmp_path):
    page = doctest.DocTestParser().get_examples((GUIDE / "fleet.md").read_text("utf-8"))
    own = {}
    for each in page:
        if each.source.startswith(("import", "from", "class")):
            exec(each.source, own)
    fleet = own["Fleet"](tmp_path / "fleet.db", lambda: LeastSquaresRegressor(1.0), size=1)
    for key in ("position", "fleet", "model of p", "p"):
        with pytest.raises(ValueError, match="nan"):
            fleet[f"not {key}"].learn_one({"a": float("nan")}, 1.0)
        for n_rows in (1, 2):
            model = fleet[key]
            model.learn_one({"a": 1.0}, 2.0)
            fleet[key] = model
            fleet.save({"position": 7, "fleet": "another"})
            assert fleet[key].count == n_rows
    assert (fleet.read("position"), fleet.read("fleet")) == (7, "another")
    assert fleet.database.execute("SELECT COUNT(*) FROM saved").fetchone() == (6,)
    fleet.database.close()
