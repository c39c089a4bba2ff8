"""Spark learns every part where it is stored, and merges the models in a tree."""

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from sklearn.datasets import load_diabetes

import onlinels


def learn(rows: pd.DataFrame) -> pd.DataFrame:
    model = onlinels.LeastSquaresRegressor(ridge=0.01)
    model.learn_many(rows.drop(columns=["part", "target"]), rows["target"])
    return pd.DataFrame({"part": rows["part"][:1] // 4, "model": [onlinels.dumps(model)]})


def add(rows: pd.DataFrame) -> pd.DataFrame:
    model = onlinels.merge(*map(onlinels.loads, rows["model"]))
    return pd.DataFrame({"part": rows["part"][:1] // 4, "model": [onlinels.dumps(model)]})


frame = load_diabetes(as_frame=True).frame.assign(part=lambda rows: rows.index % 16)
models = SparkSession.builder.getOrCreate().createDataFrame(frame)
for step in (learn, add, add):
    models = models.groupBy("part").applyInPandas(step, "part long, model binary")
onlinels.loads(models.head()["model"]).save("merged.npz")
