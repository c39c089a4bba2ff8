"""Two processes learn four parts; the merged model equals a model of all rows."""

from multiprocessing import get_context

from sklearn.datasets import load_diabetes

import onlinels


def learn(empty: bytes, part: int) -> bytes:
    rows, model = load_diabetes(as_frame=True).frame[part::4], onlinels.loads(empty)
    model.learn_many(rows.drop(columns="target"), rows["target"])
    return onlinels.dumps(model)


if __name__ == "__main__":
    empty = onlinels.dumps(onlinels.LeastSquaresRegressor(ridge=0.01))
    with get_context("spawn").Pool(2) as pool:
        parts = pool.starmap(learn, [(empty, part) for part in range(4)])
    onlinels.merge(*map(onlinels.loads, parts)).save("merged.npz")
