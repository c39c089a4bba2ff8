"""Trained models in forms that only predict: ONNX files, headers in C, estimators, predictors.

`onnx` writes a file that onnxruntime runs in C++, C#, Java or a browser, without Python. `c` writes
a header in C for microcontrollers. `to_sklearn` returns a plain linear model of scikit-learn.
`answers_only` returns a predictor, which `save` writes to a small file. All of them hold the
weights as they are now and no statistics.

A file here may import every model; nothing imports from here.
"""

from onlinels.export.c_header import c as c
from onlinels.export.onnx_model import onnx as onnx
from onlinels.export.predictor import answers_only as answers_only
from onlinels.export.predictor import to_sklearn as to_sklearn

__all__ = ["answers_only", "c", "onnx", "to_sklearn"]
