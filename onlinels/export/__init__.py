"""Trained models in formats of other software: ONNX files, and objects of scikit-learn.

`onnx` writes a file that onnxruntime runs in C++, C#, Java or a browser, without Python.
`to_sklearn` returns a plain linear model of scikit-learn. Both hold the weights as they are now and
no statistics, so they predict and do not learn.
"""

from onlinels.export.onnx_model import onnx as onnx
from onlinels.export.sklearn_model import to_sklearn as to_sklearn

__all__ = ["onnx", "to_sklearn"]
