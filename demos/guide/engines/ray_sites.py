"""Ray learns every block where it is stored, and merges the models."""

import ray.data
from ray.data.aggregate import AggregateFnV2
from ray.data.block import Block, BlockAccessor
from sklearn.datasets import load_diabetes

import onlinels

EMPTY = onlinels.dumps(onlinels.LeastSquaresRegressor(ridge=0.01))


class Learn(AggregateFnV2[bytes, bytes]):  # type: ignore[misc]
    def aggregate_block(self, block: Block) -> bytes:
        rows, model = BlockAccessor.for_block(block).to_pandas(), onlinels.loads(EMPTY)
        model.learn_many(rows.drop(columns="target"), rows["target"])
        return onlinels.dumps(model)

    def combine(self, current_accumulator: bytes, new: bytes) -> bytes:
        return onlinels.dumps(onlinels.loads(current_accumulator) + onlinels.loads(new))


data = ray.data.from_pandas([load_diabetes(as_frame=True).frame[part::4] for part in range(4)])
models = data.aggregate(Learn("model", lambda: EMPTY, on=None, ignore_nulls=False))
onlinels.loads(models["model"]).save("merged.npz")
