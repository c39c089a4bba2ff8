"""Saves of many sites, merged into one file: each site counts once, whatever comes when."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinels
from onlinels import (
    HiddenLayer,
    LeastSquaresClassifier,
    LeastSquaresRegressor,
    StreamClassifier,
    difference,
)
from onlinels.__main__ import main
from onlinels.sites import merge_files
from support.device import sent
from support.laws import fitted
from support.processes import PATIENCE, started
from support.strategies import examples


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(site, n_rows=20):
    """Return rows of whole numbers: their raw sums are exact."""
    random = np.random.default_rng(site)
    return random.integers(-9, 10, (n_rows, 4)).astype(float), random.integers(0, 9, n_rows) * 1.0


def saved(path, *rows, at=None, model=None):
    """Save a model of the rows of some sites, at a time."""
    model = model or LeastSquaresRegressor(1.0, fit_intercept=False)
    for each in rows:
        model.learn_many(*rows_of(each))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    onlinels.save(model, path)
    if at is not None:
        os.utime(path, (at, at))
    return model


def lines_of(*paths, output="all.npz"):
    """Merge, and return what is told of each file."""
    lines = []
    merge_files(output, paths, lines.append)
    return dict(line.split(": ", 1) for line in lines)


def assert_rows(path, *rows):
    """Assert that the model at a path has learnt exactly the rows of some sites."""
    expected, found = saved("expected", *rows), onlinels.load(path)
    assert found.count == expected.count
    np.testing.assert_array_equal(found.output_weights, expected.output_weights)


def test_repeated_newer_late_and_copied_files_count_once():
    saved("north.npz", 1, at=100)
    saved("south.npz", 2, at=100)
    merge_files("all.npz", ["south.npz", "north.npz"])
    assert_rows("all.npz", 1, 2)
    os.utime("all.npz", (5, 5))
    told = lines_of("north.npz", "all.npz")
    assert told["all.npz"] == "nothing new, left as it is"
    assert os.stat("all.npz").st_mtime == 5
    # South is not passed again, and stays in. A copy of the output is no site.
    shutil.copy("all.npz", "copy.npz")
    shutil.copy("north.npz", "old north.npz")
    saved("north.npz", 1, 3, at=200)
    told = lines_of("north.npz", "copy.npz", "old north.npz")
    assert told["north.npz"] == "newer, 40 rows (20 before)"
    assert told["copy.npz"] == "an output of this merge, left out"
    assert told["old north.npz"] == "in north.npz, counted once"
    assert_rows("all.npz", 1, 3, 2)
    # What was replaced is known, whatever its time; so is a copy.
    shutil.copy("south.npz", "twin.npz")
    told = lines_of("old north.npz", "twin.npz", "copy.npz")
    assert told["old north.npz"].endswith("north.npz, counted once")
    assert told["twin.npz"].endswith("south.npz, counted once")
    assert told["copy.npz"] == "an output of this merge, left out"
    assert_rows("all.npz", 1, 3, 2)
    # Merged at once, the same saves give the same bytes.
    merge_files("again.npz", ["south.npz", "north.npz"])
    assert Path("again.npz").read_bytes() == Path("all.npz").read_bytes()
    manifest = json.loads(Path("all.npz.json").read_text())
    assert [*manifest["sites"]] == ["north.npz", "south.npz"]


def test_merges_at_once_into_one_output_lose_no_site():
    names = [f"site{number}.npz" for number in range(4)]
    for number, name in enumerate(names):
        saved(name, number)
    command = [sys.executable, "-m", "onlinels", "merge", "all.npz"]
    child = started([*command, names[3]], stdout=subprocess.PIPE, text=True)
    with ThreadPoolExecutor(4) as pool, child as (child,):
        list(pool.map(lambda name: merge_files("all.npz", [name]), names[:3]))
        lines, _ = child.communicate(timeout=PATIENCE)
    assert "site3.npz: new site, 20 rows\n" in lines
    assert re.search(r"\nall\.npz: \d0 rows of \d sites\n$", lines)
    assert onlinels.load("all.npz").count == 80
    assert sorted(os.listdir()) == ["all.npz", "all.npz.json", *names]


def test_a_site_is_known_by_links_and_after_its_folder_was_moved(folder):
    saved("here/north.npz", 1, at=100)
    (folder / "there").symlink_to(folder / "here")
    merge_files("here/all.npz", ["there/north.npz"])
    (folder / "here").rename(folder / "new")
    saved("new/north.npz", 1, 2, at=200)
    told = lines_of("new/north.npz", output="new/all.npz")
    assert told["new/north.npz"] == "newer, 40 rows (20 before)"
    assert_rows("new/all.npz", 1, 2)


def test_regions_of_other_machines_hold_their_sites_wherever_these_lie():
    for region, site in (("north", 1), ("south", 2)):
        for rows in ((), (site,)):
            saved(f"{region}/site.npz", *rows)
            merge_files(f"{region}/all.npz", [f"{region}/site.npz"])
        for ending in (".npz", ".npz.json"):
            shutil.copy2(f"{region}/all{ending}", f"{region}{ending}")
    # The sites have one path in both manifests, and began with the same empty model.
    merge_files("all.npz", ["north.npz", "south.npz"])
    assert_rows("all.npz", 1, 2)
    saved("second.npz", 3)
    merge_files("both.npz", ["north/all.npz", "second.npz"])
    told = lines_of("both.npz", "north.npz", output="other.npz")
    assert told["other.npz"] == "40 rows of 1 sites"


def known(output):
    """Return the paths of the sites of an output."""
    manifest = Path(f"{output}.json")
    said = json.loads(manifest.read_text())["sites"] if manifest.exists() else {}
    return [os.path.relpath(manifest.parent / name) for name in said]


# Files of one name in many folders, of many names in one, and below one another.
NAMES = [f"{folder}{name}.npz" for folder in ("", "a/", "b/", "b/c/") for name in "wxyz"]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5))
@examples(10)
def test_hierarchies_of_any_shape_count_every_site_once(seed, n_sites, n_outputs):
    """Sites that save, and outputs of sites and of outputs, in any order."""
    random = np.random.default_rng(seed)
    paths = random.permutation(NAMES)[: n_sites + n_outputs].tolist()
    # What sites have learnt, and how many of which sites' rows the file at a path is the sum of.
    learnt, held = {site: [] for site in paths[:n_sites]}, {}
    sites, outputs = paths[:n_sites], paths[n_sites:]
    steps = sites + [random.choice(sites if random.random() < 0.3 else outputs) for _ in range(15)]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for now, path in enumerate(map(str, steps)):
            if path in sites:
                learnt[path].append(1000 * sites.index(path) + now)
                saved(path, *learnt[path])
                held[path] = {path: len(learnt[path])}
            else:
                there = [each for each in held if each != path]
                passed = random.choice(there, random.integers(1, 4)).tolist()
                files = {*passed, *known(path)}
                leaves = [(site, n) for each in files for site, n in held[each].items()]
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                try:
                    merge_files(path, passed)
                except ValueError as error:
                    assert "would count twice" in str(error)  # noqa: PT017
                    assert len(dict(leaves)) < len(leaves)
                    continue
                chosen = [held[each] for each in known(path)]
                held[path] = {site: n for each in chosen for site, n in each.items()}
                assert len(held[path]) == sum(map(len, chosen))
                assert held[path].keys() == dict(leaves).keys()
                assert all(held[path][site] >= n for site, n in leaves)
                rows = [row for site, n in held[path].items() for row in learnt[site][:n]]
                assert_rows(path, *rows)
            os.utime(path, (now, now))


FILES = {
    "north.npz": onlinels.dumps(LeastSquaresRegressor(1.0, fit_intercept=False)),
    "ridge.npz": onlinels.dumps(LeastSquaresRegressor(2.0, fit_intercept=False)),
    "labels.npz": onlinels.dumps(LeastSquaresClassifier()),
    "stream.npz": onlinels.dumps(StreamClassifier()),
    "layer.npz": onlinels.dumps(HiddenLayer(3)),
    "state.npz": onlinels.dumps({"model": LeastSquaresClassifier()}),
    "text.npz": b"text",
    "empty.npz": b"",
    "bad.npz.json": b'{"outputs": 3}',
    "deep.npz.json": 100_000 * b"[",
}
REFUSED = {
    "o.npz north.npz ridge.npz": "ridge.npz.*ridge: 1.0 and 2.0.*empty()",
    "o.npz north.npz labels.npz": "north.npz.*LeastSquaresClassifier",
    "o.npz stream.npz": "stream.npz.*StreamClassifier.*expected a model with merge",
    "o.npz layer.npz": "layer.npz.*HiddenLayer.*expected a model with merge",
    "o.npz state.npz": "state.npz cannot be merged.*dict",
    "o.npz north.npz text.npz": "text.npz cannot be read as a saved model",
    "o.npz nowhere.npz": "nowhere.npz",
    "north.npz ridge.npz": "north.npz was not written by this command.*Move it away",
    "bad.npz north.npz": "bad.npz.json cannot be read as a manifest",
    "deep.npz north.npz": "deep.npz.json cannot be read as a manifest",
    "nowhere/o.npz north.npz": "expected an existing folder",
    "o.npz o.npz": "no file to merge",
    "o.npz empty.npz": "empty.npz is empty, expected a save, or bytes of a device",
}


@pytest.mark.parametrize(("words", "message"), REFUSED.items())
def test_what_does_not_fit_is_one_sentence_and_writes_nothing(folder, capsys, words, message):
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        main(["merge", *words.split()])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert re.fullmatch(rf"python -m onlinels merge: .*{message}.*\n", said), said
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES


def test_what_was_merged_and_is_gone_is_asked_for():
    saved("north.npz", 1, at=100)
    saved("south.npz", 2, at=100)
    merge_files("all.npz", ["north.npz", "south.npz"])
    output = Path("all.npz").read_bytes()
    # A late save takes the place of what was merged.
    saved("north.npz", 1, 3, at=50)
    with pytest.raises(ValueError, match="is older than the save that was merged"):
        merge_files("all.npz", ["north.npz"])
    os.unlink("north.npz")
    with pytest.raises(ValueError, match=r"north\.npz does not exist.*bring it back"):
        merge_files("all.npz", ["south.npz"])
    assert Path("all.npz").read_bytes() == output
    saved("north.npz", 1, at=100)
    # What somebody else wrote there is not lost.
    onlinels.load("all.npz").empty().save("all.npz")
    with pytest.raises(ValueError, match="has changed since"):
        merge_files("all.npz", ["south.npz"])


def test_a_death_between_manifest_and_output_is_made_good(monkeypatch):
    saved("north.npz", 1, at=100)
    merge_files("all.npz", ["north.npz"])
    saved("north.npz", 1, 2, at=200)
    replace = os.replace

    def dying(source, target):
        if str(target).endswith("all.npz"):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            merge_files("all.npz", ["north.npz"])
    assert_rows("all.npz", 1)
    lines_of("north.npz")
    assert_rows("all.npz", 1, 2)
    assert not [name for name in os.listdir() if name.startswith(".")]


# -- bytes of devices -----------------------------------------------------------------------------

X = np.random.default_rng(0).integers(-9, 9, (60, 3))
Y = ["calm", "storm", "storm"] * 20


@pytest.fixture
def exported(folder):
    """Return the model that devices have, which is in fan.npz."""
    return saved("fan.npz", model=fitted(LeastSquaresClassifier(1.0), X[:1], ["calm"]))


def write(exported, path, number, serial, start, stop):
    """Write the bytes of some rows of a device."""
    rows = slice(start, stop)
    content = sent(exported, ("storm", "calm"), X[rows], Y[rows], number=number, serial=serial)
    Path(path).write_bytes(content)


def test_files_of_devices_are_merged_beside_saves(exported, capsys):
    for written in (("1.bytes", 1, 1, 0, 10), ("2.bytes", 2, 5, 10, 40), ("2.old", 2, 4, 10, 20)):
        write(exported, *written)
    saved("site.npz", model=fitted(exported.empty(), X[40:], Y[40:]))
    files = ["1.bytes", "2.bytes", "2.old", "site.npz"]
    main(["merge", "all.npz", *files, "--model", "fan.npz"])
    assert capsys.readouterr().out.splitlines() == [
        "2.old: not the newest bytes of device 2, left out",
        "1.bytes: new site, 10 rows",
        "2.bytes: new site, 30 rows",
        "site.npz: new site, 20 rows",
        "all.npz: 60 rows of 3 sites",
    ]
    assert difference(onlinels.load("all.npz"), fitted(exported.empty(), X, Y)) < 1e-12
    # Newer bytes replace older ones, at another path too.
    Path("2.bytes").unlink()
    write(exported, "1.bytes", 1, 2, 0, 5)
    with pytest.raises(ValueError, match=r"2.bytes.* does not exist"):
        merge_files("all.npz", files, None, exported)
    write(exported, "2.bytes", 2, 5, 10, 40)
    write(exported, "2.new", 2, 6, 10, 38)
    merge_files("all.npz", ["2.new"], None, exported)
    assert onlinels.load("all.npz").count == 5 + 28 + 20


TWICE = [("1.bytes", 1, 4, 0, 20), ("1.again", 1, 4, 5, 20)]
UNFIT = [
    ([("1.bytes", 1, 2, 0, 9)], "all.npz", ["1.bytes"], "1.bytes is older"),
    ([("new", 1, 4, 0, 20)], "nation.npz", ["all.npz", "new"], "of device 1"),
    (TWICE, "all.npz", ["1.again"], "both contain a save of device 1"),
]


@pytest.mark.parametrize(("written", "output", "passed", "message"), UNFIT)
def test_bytes_that_would_count_twice_or_are_older_are_refused(
    exported, written, output, passed, message
):
    write(exported, "1.bytes", 1, 3, 0, 10)
    with pytest.raises(ValueError, match="model is None"):
        merge_files("all.npz", ["1.bytes"])
    merge_files("all.npz", ["1.bytes"], None, exported)
    for each in written:
        write(exported, *each)
    with pytest.raises(ValueError, match=message):
        merge_files(output, passed, None, exported)


@pytest.mark.parametrize("size", [1, 3, 10, 28, -1])
def test_bytes_that_were_cut_say_so(exported, size):
    write(exported, "1.bytes", 1, 3, 0, 10)
    Path("1.bytes").write_bytes(Path("1.bytes").read_bytes()[:size])
    with pytest.raises(ValueError, match=r"1.bytes (is damaged: it )?holds .* bytes.* expected"):
        merge_files("all.npz", ["1.bytes"], None, exported)
