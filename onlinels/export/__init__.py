"""Trained models in forms that only predict: ONNX files, estimators of scikit-learn, predictors.

`onnx` writes a file that onnxruntime runs in C++, C#, Java or a browser, without Python.
`to_sklearn` returns a plain linear model of scikit-learn. `answers_only` returns a predictor, which
`save` writes to a small file. All of them hold the weights as they are now and no statistics.

A file here may import every model; nothing imports from here.
"""

from onlinels.export.onnx_model import onnx as onnx
from onlinels.export.predictor import answers_only as answers_only
from onlinels.export.predictor import to_sklearn as to_sklearn

__all__ = ["answers_only", "onnx", "to_sklearn"]
