"""The benchmark on CIFAR-10: what it learns, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import pytest

from onlinels import ConvolutionalFeatures, FilterBank, LeastSquaresClassifier

pytest.importorskip("rich")
pytest.importorskip("threadpoolctl")
SMALL = ["--contrast-filters=6", "--colour-filters=3", "--n-sample=500", "--warm-up=40"]


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("cifar10")


@pytest.fixture
def network(load_benchmark):
    return load_benchmark("patch_network")


def photographs(n_rows, seed):
    """Stripes of one of two directions in one of two colours, with noise: labels 3, 5, 7 and 9."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 4, n_rows)
    stripes = 60 * np.sin(np.arange(32)[None] * 0.9 + random.uniform(0, 6, (n_rows, 1)))
    lying = np.where((kind % 2)[:, None, None], stripes[:, :, None], stripes[:, None])
    colours = np.array([[150, 110, 90], [90, 110, 150]])[kind // 2]
    x = lying[..., None] + colours[:, None, None] + random.normal(0, 15, (n_rows, 32, 32, 3))
    return x.clip(0, 255).astype(np.uint8), 2 * kind + 3


@pytest.fixture
def command(tmp_path):
    """Write rows to learn and to test on; return the arguments that name them."""
    for name, n_rows, seed in (("train", 90, 0), ("test", 40, 1)):
        x, y = photographs(n_rows, seed)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    files = [f"--{name}={tmp_path / f'{name}.npz'}" for name in ("train", "test")]
    return [*files, *SMALL, "--no-progress", "--batch-size=32"]


def test_a_result_that_others_can_check(tmp_path, monkeypatch, demo, command, capsys):
    paths = tmp_path / "r.json", tmp_path / "p.npy"
    demo.main([*command, f"--result={paths[0]}", f"--predictions={paths[1]}"])
    result, predictions = json.loads(paths[0].read_text()), np.load(paths[1])
    assert result["error"] == (predictions != photographs(40, 1)[1]).mean() < 0.2
    assert (result["n_train"], result["n_test"], result["n_classes"]) == (90, 40, 4)
    stages = {"warm_up", "features", "learning", "solving", "testing", "all"}
    assert set(result["seconds"]) == stages
    assert result["peak_memory_gib"] > 0
    assert result["settings"]["colour_filters"] == 3
    assert result["settings"]["warm_up"] == 40
    assert f"{result['error']:.2%}" in capsys.readouterr().out
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    demo.main([*command, f"--predictions={tmp_path / 'again.npy'}"])
    assert (np.load(tmp_path / "again.npy") == predictions).all()


def test_the_seed_decides_and_the_cutting_does_not(tmp_path, demo, command):
    scores = {}
    for name, extra in (("a", []), ("b", ["--batch-size=7"]), ("c", ["--seed=1"])):
        parsed = demo.make_parser().parse_args([*command, *extra])
        run, train, test = demo.prepare(parsed)
        features, model = demo.learn(run, train, demo.Stopwatch())
        scores[name] = model.scores_many(features.transform(test.x))[:, np.argsort(model.classes)]
    np.testing.assert_allclose(scores["b"], scores["a"], atol=1e-6)
    assert np.abs(scores["c"] - scores["a"]).max() > 1e-3


@pytest.mark.parametrize("part", [{"--contrast-filters": 0}, {"--colour-filters": 0}])
def test_one_kind_of_filters_is_enough(demo, command, part):
    extra = [f"{name}={value}" for name, value in part.items()]
    demo.main([*command, *extra])


def test_averaging_over_shifts_classifies_too(tmp_path, demo, command):
    demo.main([*command, "--test-shifts=1", f"--result={tmp_path / 'r.json'}"])
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["error"] < 0.2
    assert result["settings"]["test_shifts"] == 1


def test_hidden_units_beside_patches_see_colours(tmp_path, demo, command):
    assert demo.make_parser().parse_args(command).n_hidden == 0
    files = [f"--result={tmp_path / 'r.json'}", f"--predictions={tmp_path / 'p.npy'}"]
    demo.main([*command, *files, "--n-hidden=30", "--test-shifts=1"])
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["error"] == (np.load(tmp_path / "p.npy") != photographs(40, 1)[1]).mean() < 0.2
    assert result["settings"]["n_hidden"] == 30
    run, train, test = demo.prepare(demo.make_parser().parse_args([*command, "--n-hidden=30"]))
    features, _ = demo.learn(run, train, demo.Stopwatch())
    rows = features.transform(test.x)
    _, hidden = features.parts
    assert rows.shape == (40, 8 * 9 + 30)
    assert (rows[:, -30:] == hidden.transform(test.x)).all()
    assert hidden.stage.bank.filters.shape == (60, 7, 7, 3)
    grey = np.repeat(test.x.mean(axis=3, keepdims=True), 3, axis=3).astype(np.uint8)
    assert np.abs(hidden.transform(grey) - rows[:, -30:]).max() > 1.0


def test_hidden_units_need_two_classes(tmp_path, demo, command):
    np.savez(tmp_path / "train.npz", x=X, y=np.full(50, 3))
    with pytest.raises(ValueError, match=r"warm-up holds only the label 3, .* Pass --n-hidden 0"):
        demo.prepare(demo.make_parser().parse_args([*command, "--n-hidden=12"]))
    demo.prepare(demo.make_parser().parse_args(command))


@pytest.mark.parametrize("labels", [[4], [4, 6], ["car", "cat"]])
def test_any_labels(tmp_path, demo, command, labels):
    for name, n_rows in (("train", 90), ("test", 40)):
        x, y = photographs(n_rows, 7)
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.array(labels)[(y // 6) % len(labels)])
    demo.main([*command, f"--predictions={tmp_path / 'p.npy'}", f"--result={tmp_path / 'r.json'}"])
    assert set(np.load(tmp_path / "p.npy")) == set(labels)
    assert json.loads((tmp_path / "r.json").read_text())["error"] < 0.2


def test_quick_is_small(demo, command):
    parsed = demo.make_parser().parse_args([*command[:2], "--quick", "--warm-up=40"])
    run, train, _ = demo.prepare(parsed)
    assert run.settings.contrast_filters + run.settings.colour_filters == 100
    assert len(train) == 90


def with_arrays(**arrays):
    return lambda path: np.savez(path, **arrays)


def single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def damaged(old, new):
    """Write a file in which some bytes are others."""

    def write(path):
        np.savez(path, x=X, y=Y)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new))

    return write


def compressed_and_damaged(path):
    """Write a file whose compressed images begin as no compressed data do."""
    np.savez_compressed(path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    start = 30 + sum(struct.unpack("<2H", content[26:30]))
    content[start] = 0xFF
    path.write_bytes(content)


X, Y = photographs(50, 2)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "train.npz does not exist"),
        (lambda path: path.write_bytes(b"no zip"), "train.npz cannot be read"),
        (lambda path: path.write_bytes(b"PK\x03\x04cut"), "train.npz cannot be read"),
        (compressed_and_damaged, "train.npz cannot be read: Error -3"),
        (damaged(b"(50, 32", b"(50, (2"), "cannot be read: it holds other things than arrays"),
        (single_array, "train.npz cannot be read: File is not a zip file"),
        (with_arrays(x=X), r"no array y, only \['x'\]"),
        (with_arrays(x_train=X, y=Y), "no array x, only"),
        (with_arrays(x=X.reshape(50, -1), y=Y), r"shape \(50, 3072\), expected \(n, 32, 32, 3\)"),
        (with_arrays(x=X / 255, y=Y), "dtype float64, expected uint8"),
        (with_arrays(x=X, y=Y[:49]), r"y has shape \(49,\), expected \(50,\)"),
        (with_arrays(x=X, y=Y[:, None]), r"y has shape \(50, 1\)"),
        (with_arrays(x=X, y=Y / 2), "y has dtype float64, expected whole numbers"),
        (with_arrays(x=X, y=Y.astype(object)), "read: it holds other things than arrays"),
        (with_arrays(x=X, y=Y.astype(str)), "Labels are <U.* expected one kind"),
        (with_arrays(x=X[:0], y=Y[:0]), "holds no rows"),
        (with_arrays(x=X[:39], y=Y[:39]), "holds 39 rows, expected at least 40 .* --warm-up 39"),
    ],
)
def test_what_cannot_be_learnt_is_refused(tmp_path, demo, command, capsys, write, message):
    (tmp_path / "train.npz").unlink()
    write(tmp_path / "train.npz")
    with pytest.raises(SystemExit):
        demo.main(command)
    with pytest.raises(ValueError, match=message):
        demo.prepare(demo.make_parser().parse_args(command))
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("kinds", [("U2", "S2"), ("S2", "U2"), ("S2", "u1"), ("u1", "U2")])
def test_labels_of_two_kinds_are_refused(tmp_path, demo, command, kinds):
    types = [np.dtype(kind) for kind in kinds]
    for name, dtype in zip(("train", "test"), types, strict=True):
        np.savez(tmp_path / f"{name}.npz", x=X, y=Y.astype(dtype))
    message = r"Labels are {} in .*train\.npz and {} in .*test\.npz, expected one kind"
    with pytest.raises(ValueError, match=message.format(*map(re.escape, map(str, types)))):
        demo.prepare(demo.make_parser().parse_args(command))


def test_whole_numbers_are_one_kind_of_labels(tmp_path, demo, command):
    for name, dtype in (("train", "i8"), ("test", "u1")):
        np.savez(tmp_path / f"{name}.npz", x=X, y=Y.astype(dtype))
    demo.main([*command, f"--result={tmp_path / 'r.json'}"])
    assert json.loads((tmp_path / "r.json").read_text())["error"] < 0.2


def test_settings_are_refused_before_anything_is_read(tmp_path, demo, command):
    for extra, message in (
        ([f"--result={tmp_path / 'nowhere' / 'r.json'}"], "nowhere is no folder"),
        (["--contrast-filters=0", "--colour-filters=0"], "There are 0 filters"),
        (["--threshold=-1"], "threshold"),
        (["--patch-size=33"], "leave no pooled position"),
        (["--pool-size=28"], "leave no pooled position"),
        (["--test-shifts=32"], "--test-shifts is 32, expected 0 to 31"),
    ):
        parsed = demo.make_parser().parse_args([*command, *extra])
        with pytest.raises(ValueError, match=message):
            demo.prepare(parsed)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("--ridge=0", "--ridge: '0' is no number above 0"),
        ("--ridge=inf", "--ridge: 'inf' is no number above 0"),
        ("--warm-up=0", "--warm-up: '0' is no whole number of at least 1"),
        ("--n-hidden=-1", "--n-hidden: '-1' is no whole number of at least 0"),
        ("--test-shifts=-1", "--test-shifts: '-1' is no whole number of at least 0"),
        ("--batch-size=some", "--batch-size: 'some' is no whole number of at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(demo, command, capsys, extra, message):
    with pytest.raises(SystemExit) as ended:
        demo.main([*command, extra])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def features(network):
    settings = network.Settings(5, 2, n_sample=500)
    return network.MirrorFeatures.from_examples(photographs(30, 3)[0], settings)


def test_an_image_and_its_mirror_image_have_equal_features(features):
    x = photographs(6, 4)[0]
    np.testing.assert_allclose(features.transform(x[:, :, ::-1]), features.transform(x), 1e-6)


def test_features_have_variance_1_where_they_vary(features):
    rows = features.transform(photographs(30, 3)[0])
    rows[:, 4] = 2.0
    scaled = features.scaled_by(rows)
    np.testing.assert_allclose(np.delete((rows * scaled.scale).std(axis=0), 4), 1.0, 1e-3)
    assert np.isfinite(scaled.scale).all()
    assert np.isfinite(features.scaled_by(np.zeros_like(rows)).scale).all()


def test_sums_over_mirror_images_learn_what_mirrored_copies_would(network):
    x, y = photographs(40, 5)
    settings = network.Settings(5, 3, n_sample=500)
    features = network.MirrorFeatures.from_examples(x, settings)
    closed = []
    for stage, bank in zip(features.stages, settings.banks(), strict=True):
        own, offsets = stage.bank.filters, stage.bank.offsets
        both = FilterBank(np.concatenate([own, own[:, :, ::-1]]), np.tile(offsets, 2))
        closed.append(ConvolutionalFeatures(**bank | {"filters": both}))

    def rows(images):
        pixels = images.astype(np.float32) / 64
        return np.concatenate([stage.transform_many(pixels) for stage in closed], axis=1)

    short, long = LeastSquaresClassifier(3.0), LeastSquaresClassifier(3.0)
    short.learn_many(features.transform(x), y)
    for images in (x, x[:, :, ::-1]):
        long.learn_many(rows(images), y)
    fresh = photographs(10, 6)[0]
    expected = long.scores_many(rows(fresh))
    np.testing.assert_allclose(short.scores_many(features.transform(fresh)), expected, atol=1e-4)
