"""A graph of ONNX operators while it is made, and the file that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinels.checks import Matrix
from onlinels.saving import files

OPSET = 17
"""Version of the operators: that of ONNX 1.12 (2022), which every later runtime reads."""

IR_VERSION = 8
"""Version of the file format, that of ONNX 1.12 too."""


class Tensor(NamedTuple):
    """An input or an output: its name, the dtype of numpy, and its shape, None for the batch."""

    name: str
    dtype: Any
    shape: tuple[int | None, ...]


def single(values: Any, what: str) -> Matrix:
    """Return numbers in single precision; raise ValueError if one is too large for it."""
    values = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded: Matrix = values.astype(np.float32)
    if (np.isfinite(values) & ~np.isfinite(rounded)).any():
        largest = np.abs(values[np.isfinite(values)]).max()
        problem = f"{what} as large as {largest:g} do not fit float32, expected numbers that do"
        raise ValueError(f"{problem}. Rescale the features or targets.")
    return rounded


class Graph:
    """Nodes and constants, in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = []
        self.constants: dict[str, Matrix] = {}

    def add(
        self,
        operator: str,
        *inputs: str | Matrix,
        name: str | None = None,
        n_outputs: int = 1,
        **attributes: Any,
    ) -> str:
        """Add a node; return the name of its first output. Arrays become constants."""
        number = len(self.nodes)
        names = []
        for place, given in enumerate(inputs):
            if not isinstance(given, str):
                constant = f"c{number}_{place}"
                self.constants[constant] = given
                given = constant
            names.append(given)
        output = name or f"v{number}"
        outputs = [output, *(f"{output}_{k}" for k in range(1, n_outputs))]
        self.nodes.append((operator, names, outputs, attributes))
        return output

    def cast(self, value: str, dtype: Any) -> str:
        """Return the name of a value in another dtype, float32 or float64."""
        return self.add("Cast", value, to=11 if dtype == np.float64 else 1)

    def write(
        self,
        path: Path,
        inputs: list[Tensor],
        outputs: list[Tensor],
        metadata: Mapping[str, str],
        version: str,
    ) -> None:
        """Check the graph and write it to a file, whole or not at all."""
        from onnx import checker, helper, numpy_helper

        graph = helper.make_graph(
            [helper.make_node(op, given, made, **others) for op, given, made, others in self.nodes],
            "onlinels",
            [_described(tensor) for tensor in inputs],
            [_described(tensor) for tensor in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="onlinels",
            producer_version=version,
        )
        helper.set_model_props(model, dict(metadata))
        checker.check_model(model, full_check=True)
        content = model.SerializeToString()
        with files.replacing(path) as file:
            file.write(content)


def _described(tensor: Tensor) -> Any:
    from onnx import TensorProto, helper

    dtype = np.dtype(tensor.dtype)
    kind = TensorProto.STRING if dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(dtype)
    shape = ["batch" if size is None else size for size in tensor.shape]
    return helper.make_tensor_value_info(tensor.name, kind, shape)
