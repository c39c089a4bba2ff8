"""The shape of the package: imports go one way, files and functions stay small, nothing unsafe."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import onlinels

PACKAGE = Path(onlinels.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Down the flow: a module imports only from lines above its own; modules of one line are siblings,
# which do not import each other. Anything may import the first lines.
LAYERS = [
    {
        "arrays",
        "settings",
        "damage",
        "frames",
        "commit",
        "version",
        "bounded",
        "finishing",
        "memory",
        "reentry",
    },
    {"frozen", "threads", "array_files", "scalars"},
    # Models in files: how, and not of what they consist.
    {"saving.replacing", "saving.unread", "saving.container"},
    {"saving.fields", "saving.reading"},
    {"saving.kinds"},
    {"saving.writing"},
    {"saving.building"},
    {"saving.files"},
    {"products"},
    {"times", "capacity", "row_weights"},
    {"panel"},
    {"panels"},
    {"cholesky"},
    {
        "targets",
        "ridge",
        "solve",
        "spectrum",
        "triangle",
        "null_space",
        "probabilities",
        "labels",
        "names",
        "decay",
        "balance",
    },
    {"batch", "solve_factor"},
    {"encoding"},
    {"selection", "dealing", "columns", "real_targets"},
    {"outputs"},
    # What is remembered of the stream.
    {
        "accumulators.hooks",
        "accumulators.removal",
        "accumulators.uncertainty",
        "accumulators.pivots",
    },
    {"accumulators.ledger"},
    {"accumulators.protocol"},
    {"accumulators.planning"},
    {"accumulators.base", "accumulators.mean", "accumulators.fading"},
    {"accumulators.corrected"},
    {"accumulators.inverse"},
    {"accumulators.tracking"},
    {"accumulators.tracker"},
    {"accumulators.gram", "accumulators.orthogonal", "accumulators.comoments"},
    {"accumulators.centred", "accumulators.held_out"},
    {"accumulators.grouped"},
    {"accumulators.folded", "accumulators.classwise"},
    {"accumulators.refusal"},
    {"accumulators.inverted"},
    {"accumulators.recursion"},
    {"accumulators.recursive"},
    # Readers of image data sets.
    {"datasets.files", "datasets.source"},
    {
        "datasets.idx",
        "datasets.cifar",
        "datasets.matlab",
        "datasets.norb",
        "datasets.npz",
    },
    {"datasets.svhn"},
    {"datasets.folder"},
    {"datasets.streaming", "datasets.download"},
    {"datasets"},
    # Fixed features, in the order in which images go through them.
    {"features.kinds", "features.pixels", "features.whitening", "features.contrast"},
    {"features.images"},
    {"features.distortion.places", "features.sampling"},
    {"features.distortion.distortion"},
    {"features.preprocessing.image_whitening", "features.preprocessing.slant"},
    {"features.preprocessing.steps"},
    {"features.preprocessing.preprocessing"},
    {
        "features.filters.hand_designed",
        "features.filters.kernels",
        "features.filters.bank",
        "features.filters.patch_sampling",
    },
    {"features.filters.dilated", "features.filters.combination", "features.filters.pretrained"},
    {"features.filters.folding", "plots"},
    {"features.filters.patches"},
    {
        "features.convolution.nonlinearities",
        "features.convolution.normalization",
        "features.convolution.pooling",
    },
    {"features.convolution.stage", "features.convolution.proportions"},
    {"features.convolution.minirocket"},
    {"features.convolution.magnitudes"},
    {"features.convolution.tiles"},
    {"features.convolution.convolve"},
    {"features.convolution.transformer"},
    {"features.convolution.shallow", "features.convolution.windows"},
    {"features.hidden.activations", "features.hidden.draws", "features.hidden.input_weights"},
    {"features.hidden.landmarks", "features.hidden.receptive_fields"},
    {"features.hidden.differences", "features.hidden.random_weights"},
    {"features.hidden.compatibility"},
    {"features.hidden.layer"},
    # The estimators.
    {"scoring", "merging"},
    {"choice", "remembering", "presets", "predictive", "calibration"},
    {"gathering"},
    {"row_by_row"},
    {"solution"},
    {"letting_in"},
    {"linear"},
    {"explain", "uncertain"},
    {"facade"},
    {"labelled", "real_valued"},
    {"classifier", "regressor", "multi_target"},
    {"examples"},
    {"warm_up", "fixed"},
    {"answering"},
    {"learning"},
    {"network"},
    {"wrapping"},
    {"ahead"},
    {"calibrated", "drift"},
    # Windows of readings, in the order in which a reading goes through the modules.
    {"windowed.readings", "windowed.spacing"},
    {"windowed.sliding"},
    {"windowed.following"},
    {"windowed.together"},
    {"windowed.answers"},
    {"windowed.classifier"},
    {"windowed"},
    # Dict streams, in the order in which a row goes through the modules.
    {"stream.samples", "stream.scaling", "stream.units", "stream.expert", "stream.forecaster"},
    {"stream.placing", "stream.activations", "stream.memories"},
    {"stream.pool"},
    {"stream.forecasts"},
    {"stream.classifier"},
    {"stream"},
    # Of what savable objects consist.
    {"states.settings", "states.accumulators", "states.river_kinds", "states.river_pipelines"},
    {"states.river_transformers", "states.river_detectors"},
    {"states.linear", "states.features", "states.stream", "states.windowed"},
    {"states"},
    {""},
    {
        "saving",
        "accumulators",
        "features",
        "features.convolution",
        "features.distortion",
        "features.filters",
        "features.hidden",
        "features.preprocessing",
    },
]


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onlinels"):
            yield (node.module or "").removeprefix("onlinels").removeprefix(".")


def layer_of(name):
    return next(level for level, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path):
    for imported in imports_of(path):
        assert layer_of(imported) < layer_of(name_of(path)), f"imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_stay_small(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 250
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            documented = ast.get_docstring(node) is not None
            body = node.body[1:] if documented else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 27, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_are_documented_and_nothing_is_unpickled(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "marshal", "shelve"}


def test_public_names():
    assert set(onlinels.__all__) <= set(dir(onlinels))
    assert (PACKAGE / "py.typed").exists()
