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
)
from onlinels.__main__ import main
from onlinels.sites import merge_files
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


def rows_in(*rows):
    """Tell whether the output has learnt exactly the rows of some sites."""
    expected = saved("expected", *rows)
    found = onlinels.load("all.npz")
    return found.count == expected.count and np.array_equal(
        found.output_weights, expected.output_weights
    )


def test_repeated_newer_late_and_copied_files_count_once():
    saved("north.npz", 1, at=100)
    saved("south.npz", 2, at=100)
    told = lines_of("south.npz", "north.npz")
    assert told == {
        "north.npz": "new site, 20 rows",
        "south.npz": "new site, 20 rows",
        "all.npz": "40 rows of 2 sites",
    }
    assert rows_in(1, 2)
    first = Path("all.npz").read_bytes()
    os.utime("all.npz", (5, 5))
    told = lines_of("north.npz", "all.npz")
    assert told["north.npz"] == "same as before, 20 rows"
    assert told["all.npz"] == "nothing new, left as it is"
    assert os.stat("all.npz").st_mtime == 5
    # South is not passed again, and stays in. A copy of the output is no site.
    Path("copy.npz").write_bytes(first)
    Path("old north.npz").write_bytes(Path("north.npz").read_bytes())
    saved("north.npz", 1, 3, at=200)
    told = lines_of("north.npz", "copy.npz", "old north.npz")
    assert told["north.npz"] == "newer, 40 rows (20 before)"
    assert told["copy.npz"] == "an output of this merge, left out"
    assert told["old north.npz"] == "in north.npz, counted once"
    assert rows_in(1, 3, 2)
    # What was replaced is known, whatever its time; so is a copy.
    Path("twin.npz").write_bytes(Path("south.npz").read_bytes())
    told = lines_of("old north.npz", "twin.npz", "copy.npz")
    assert told["old north.npz"].endswith("north.npz, counted once")
    assert told["twin.npz"].endswith("south.npz, counted once")
    assert told["copy.npz"] == "an output of this merge, left out"
    assert rows_in(1, 3, 2)
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
    assert onlinels.load("new/all.npz").count == 40


def test_regions_of_other_machines_hold_their_sites_wherever_these_lie():
    for region, site in (("north", 1), ("south", 2)):
        saved(f"{region}/site.npz", model=LeastSquaresRegressor(1.0, fit_intercept=False))
        merge_files(f"{region}/all.npz", [f"{region}/site.npz"])
        saved(f"{region}/site.npz", site)
        merge_files(f"{region}/all.npz", [f"{region}/site.npz"])
        for ending in (".npz", ".npz.json"):
            shutil.copy2(f"{region}/all{ending}", f"{region}{ending}")
    # The sites have one path in both manifests, and began with the same empty model.
    merge_files("all.npz", ["north.npz", "south.npz"])
    assert rows_in(1, 2)
    saved("second.npz", 3)
    merge_files("both.npz", ["north/all.npz", "second.npz"])
    assert (
        lines_of("both.npz", "north.npz", output="other.npz")["other.npz"] == "40 rows of 1 sites"
    )


class Hierarchy:
    """Sites that save, and outputs of sites and of outputs, in any shape and order."""

    def __init__(self, seed, n_sites, n_outputs):
        self.random, self.now = np.random.default_rng(seed), 0
        # Files of one name in many folders, of many names in one, and below one another.
        folders = ["", "a/", "b/", "b/c/"]
        names = [f"{folder}{name}.npz" for folder in folders for name in ("model", "x", "y", "z")]
        paths = self.random.permutation(names)[: n_sites + n_outputs].tolist()
        self.sites, self.outputs = paths[:n_sites], paths[n_sites:]
        # What sites have learnt, and of which sites' rows the file at a path is the sum.
        self.learnt, self.held = {site: [] for site in self.sites}, {}
        for site in self.sites:
            self.save(site)

    def timed(self, path):
        self.now += 1
        os.utime(path, (self.now, self.now))

    def save(self, site):
        """Let a site learn more rows, and save."""
        self.learnt[site].append(1000 * self.sites.index(site) + self.now)
        saved(site, *self.learnt[site])
        self.timed(site)
        self.held[site] = {site: len(self.learnt[site])}

    def merge(self, output):
        """Merge some files into an output; assert that it is their sum, or rightly refused."""
        there = [path for path in self.held if path != output]
        passed = self.random.choice(there, self.random.integers(1, 4)).tolist()
        files = {*passed, *self.known(output)}
        leaves = [(site, n) for path in files for site, n in self.held[path].items()]
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        refused = None
        try:
            merge_files(output, passed)
        except ValueError as error:
            refused = str(error)
        if refused is not None:
            assert "would count twice" in refused or "no file to merge" in refused
            assert len({site for site, _ in leaves}) < len(leaves) or passed == [output]
            return
        chosen = [self.held[path] for path in self.known(output)]
        whole = {site: n for each in chosen for site, n in each.items()}
        assert len(whole) == sum(map(len, chosen))
        assert whole.keys() == {site for site, _ in leaves}
        assert all(whole[site] >= n for site, n in leaves)
        self.held[output] = whole
        self.timed(output)
        self.check(output)

    def known(self, output):
        """Return the paths of the sites of an output."""
        manifest = Path(f"{output}.json")
        said = json.loads(manifest.read_text())["sites"] if manifest.exists() else {}
        return [os.path.relpath(manifest.parent / name) for name in said]

    def check(self, output):
        rows = [row for site, n in self.held[output].items() for row in self.learnt[site][:n]]
        expected, found = saved("expected", *rows), onlinels.load(output)
        assert found.count == expected.count
        assert np.array_equal(found.output_weights, expected.output_weights)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5))
@examples(10)
def test_hierarchies_of_any_shape_count_every_site_once(seed, n_sites, n_outputs):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        hierarchy = Hierarchy(seed, n_sites, n_outputs)
        for _ in range(15):
            if hierarchy.random.random() < 0.3:
                hierarchy.save(hierarchy.random.choice(hierarchy.sites))
            else:
                hierarchy.merge(hierarchy.random.choice(hierarchy.outputs))


def test_what_does_not_fit_is_one_sentence_and_writes_nothing(folder, capsys):
    saved("north.npz", 1, at=100)
    saved("b/north.npz", 2, at=100)
    saved("ridge.npz", model=LeastSquaresRegressor(2.0, fit_intercept=False))
    saved("labels.npz", model=LeastSquaresClassifier())
    saved("stream.npz", model=StreamClassifier())
    saved("layer.npz", model=HiddenLayer(3))
    onlinels.save({"model": LeastSquaresClassifier()}, "state.npz")
    Path("text.npz").write_text("text")
    Path("bad.npz.json").write_text('{"outputs": 3}')
    Path("deep.npz.json").write_text("[" * 100_000)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for words, names in [
        ("o.npz north.npz ridge.npz", ["ridge.npz", "ridge: 1.0 and 2.0", "empty()"]),
        ("o.npz north.npz labels.npz", ["north.npz", "LeastSquaresClassifier"]),
        ("o.npz stream.npz", ["stream.npz", "StreamClassifier", "expected a model with merge"]),
        ("o.npz layer.npz", ["layer.npz", "HiddenLayer", "expected a model with merge"]),
        ("o.npz state.npz", ["state.npz cannot be merged", "dict"]),
        ("o.npz north.npz text.npz", ["text.npz cannot be read as a saved model"]),
        ("o.npz nowhere.npz", ["nowhere.npz"]),
        ("north.npz ridge.npz", ["north.npz was not written by this command", "Move it away"]),
        ("bad.npz north.npz", ["bad.npz.json cannot be read as a manifest"]),
        ("deep.npz north.npz", ["deep.npz.json cannot be read as a manifest"]),
        ("nowhere/o.npz north.npz", ["expected an existing folder"]),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(["merge", *words.split()])
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert said.startswith("python -m onlinels merge: ")
        assert said.count("\n") == 1
        assert all(name in said for name in names), said
        assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    assert rows_in(1)
    lines_of("north.npz")
    assert rows_in(1, 2)
    assert not [name for name in os.listdir() if name.startswith(".")]
