"""StreamClassifier written down literally; the package gives the recursion and random draws."""

import numpy as np

from onlinels.linear.scoring import SCALE_PENALTIES, SOFTMAX_SCALES
from onlinels.numerics import apply
from onlinels.stream.cells import N_PARTITIONS, Cells
from onlinels.stream.features import N_UNITS, Activations
from onlinels.stream.waiting import sample_key
from onlinels.sums.recursion import Recursion


def literal_row(names, sample):
    """Return a row: gaps NaN, what is absent 0, texts 0 and 1."""
    row = []
    for name in names:
        key, part = name if isinstance(name, tuple) else (name, None)
        value = sample.get(key, 0.0)
        if value is None or value is np.nan:
            row.append(np.nan)
        elif isinstance(part, int):
            row.append(float(value[part]) if isinstance(value, np.ndarray) else 0.0)
        elif isinstance(part, str) or isinstance(value, (str, np.ndarray)):
            row.append(float(isinstance(value, str) and value == part))
        else:
            row.append(float(value))
    return np.array(row)


class LiteralFeature:
    """Mean and variance of one feature, as said: fading, anew after five values far off."""

    def __init__(self, before):
        # What was 0 in all rows before it came, but where it was unknown.
        known = [age for age, value in enumerate(reversed(before)) if not np.isnan(value)]
        self.weight, self.mean, self.variance = sum(0.9995**age for age in known), 0.0, 0.0
        self.n_far = 0

    def transform(self, value):
        if np.isnan(value) or not self.weight:
            return 0.0
        if not self.variance:
            return np.sign(value - self.mean)
        return np.clip((value - self.mean) / np.sqrt(self.variance), -6.0, 6.0)

    def learn(self, value):
        if np.isnan(value):
            self.weight, self.n_far = 0.9995 * self.weight, 0
            return
        limit = 6.0 * np.sqrt(self.variance)
        if limit and self.weight >= 4.0 and abs(value - self.mean) > limit:
            self.n_far += 1
            if self.n_far == 5:
                self.weight, self.mean, self.variance, self.n_far = 1.0, value, 0.0, 0
                return
            value = np.clip(value, self.mean - limit, self.mean + limit)
        else:
            self.n_far = 0
        before, self.weight = 0.9995 * self.weight, 0.9995 * self.weight + 1.0
        mean = self.mean + (value - self.mean) / self.weight
        squares = before * (self.variance + (self.mean - mean) ** 2) + (value - mean) ** 2
        self.mean, self.variance = mean, squares / self.weight


class LiteralPair:
    """A long and a short memory, of which the long one takes over what the short one knows."""

    def __init__(self):
        self.long, self.short = Recursion(0, 0, 1.0, 1 / 16), Recursion(0, 0, 1.0, 1 / 16)
        self.differences, self.n_takeovers = [], 0

    def learn(self, activations, target, errs, w):
        self.differences.append(w * (float(errs[0]) - float(errs[1])))
        shares = 0.995 ** np.arange(len(self.differences))[::-1]
        lead = shares @ self.differences
        if lead > 2.0 and lead > 2.0 * np.sqrt(shares @ np.square(self.differences)):
            self.long, self.differences = self.short.copied(), []
            self.n_takeovers += 1
        for recursion, decay in ((self.long, 1.0), (self.short, 0.99)):
            errors = target - recursion.scores(activations)
            apply(recursion.plan(activations, errors, w, decay))


class LiteralCells:
    """Shares of classes in the cells of partitions, of which only the draws are not its own."""

    def __init__(self):
        self.sums, self.seen, self.losses = {}, [None] * N_PARTITIONS, np.zeros(N_PARTITIONS)

    def look(self, cells, scaled, texts):
        """Return the cells of a row: of partitions, by what they see, then of texts."""
        found = []
        for p in range(N_PARTITIONS):
            bins = (4, 4, 4) if p % 2 else (8, 8)
            seen = tuple(cells._seen[: len(bins), p]) if len(scaled) else ()
            values = [scaled[column] for column in seen] or [0.0] * len(bins)
            shifted = np.array(bins) / 4 * values + cells._shifts[: len(bins), p]
            clipped = np.clip(shifted // 1, 0, np.array(bins) - 1)
            found.append((p, seen, tuple(clipped)))
        return [*found, *texts]

    def shares(self, places, n_classes):
        """Return shares of classes: of the mixture, then of every text."""
        each = [self.sums.get(place, np.zeros(1 + n_classes)) for place in places]
        each = [np.append(sums, np.zeros(1 + n_classes - len(sums))) for sums in each]
        each = np.array([(sums[1:] + 1 / n_classes) / (sums[0] + 1) for sums in each])
        weights = np.exp(-self.losses) / np.exp(-self.losses).sum()
        return each, np.array([weights @ each[:N_PARTITIONS], *each[N_PARTITIONS:]]) - 1 / n_classes

    def learn(self, places, each, column, is_new, w):
        if not is_new:
            self.losses = 0.995 * self.losses - w * np.log(each[:N_PARTITIONS, column])
        for number, place in enumerate(places):
            sums = self.sums.get(place, np.zeros(1))
            sums = np.append(sums, np.zeros(max(0, 2 + column - len(sums))))
            left = 0.98 if number >= N_PARTITIONS or number % 4 > 1 else 0.8
            sums = sums * left
            sums[0] += w
            sums[1 + column] += w
            self.sums[place] = sums


def scaled_by(features, row):
    return np.array([each.transform(value) for each, value in zip(features, row, strict=True)])


def units_of(activations, features):
    return activations.of(features)[:N_UNITS]


class LiteralSoftmax:
    """Softmax regression, a step of 0.01 along the gradient a row."""

    def __init__(self):
        self.weights = np.zeros((0, 0))

    def probabilities(self, activations, n_classes):
        held, self.weights = self.weights, np.zeros((len(activations), n_classes))
        self.weights[: held.shape[0], : held.shape[1]] = held
        scores = np.exp(activations @ self.weights - (activations @ self.weights).max())
        return scores / scores.sum()

    def learn(self, activations, target, w):
        errors = target - self.probabilities(activations, len(target))
        self.weights += 0.01 * w * np.outer(activations, errors)


class Literal:
    """The whole of it, of which only the recursion and what is drawn at random are its own."""

    def __init__(self, seed, delay=0, most_texts=64):
        self.units, self.delay = Activations(seed), delay
        self.draws, self.cells = Cells(seed), LiteralCells()
        self.most_texts, self.crowded = most_texts, []
        self.names, self.features, self.places = (), [], []
        self.labels, self.columns, self.samples = [], [], []
        self.wide, self.narrow = LiteralPair(), LiteralPair()
        self.errors, self.losses = np.zeros(4), np.zeros(len(SOFTMAX_SCALES))
        self.how_late, self.waiting, self.softmaxes = 0, {}, []
        # What came before anything was learnt: names, their scale, samples.
        self.watched = (), [], []

    @property
    def late(self):
        return self.how_late > 0

    def shares(self):
        errors = self.errors if self.late else self.errors[:4]
        rate = 0.5 / np.sqrt(1.0 + self.how_late / 5.0)
        return np.exp(-rate * errors) / np.exp(-rate * errors).sum()

    def scaled(self, row):
        return scaled_by(self.features, row)

    def learn_scale(self, x, row):
        for feature, value in zip(self.features, row, strict=True):
            feature.learn(value)
        self.samples.append(x)

    def watch(self, x, names):
        """Let a sample wait that comes before anything is learnt."""
        if sample_key(x) in self.waiting:
            return
        known, features, samples = self.watched
        features += [
            LiteralFeature([literal_row([n], x)[0] for x in samples]) for n in names[len(known) :]
        ]
        row = literal_row(names, x)
        forecast = {"count": 0, "scores": np.zeros((4, 0)), "last": None, "is_scaled": False}
        self.waiting[sample_key(x)] = forecast | {"scaled": scaled_by(features, row)}
        for feature, value in zip(features, row, strict=True):
            feature.learn(value)
        self.watched = names, features, [*samples, x]

    def notice_late(self):
        """Take the scale of what came before anything was learnt, if it knows more."""
        names, features, samples = self.watched
        fits = names == self.names and len(samples) > len(self.columns)
        if fits:
            self.features, self.samples = features, samples
        for key, forecast in self.waiting.items():
            if not forecast["count"]:
                scaled = forecast["scaled"] if fits else []
                self.waiting[key] = forecast | {"scaled": scaled, "is_scaled": fits}
        self.softmaxes = [LiteralSoftmax(), LiteralSoftmax()]
        self.errors = np.append(self.errors, [self.errors.max()] * 3)

    def look(self, x, last, scaled):
        values = {("feature", number): value for number, value in enumerate(scaled)}
        values[("label", last)] = 1.0
        texts = [name for name in self.crowded if isinstance(x.get(name), str)]
        texts = [name for name in texts if (name, x[name]) not in self.names]
        seen = self.cells.look(self.draws, scaled, [(name, x[name]) for name in texts])
        each, shares = self.cells.shares(seen, len(self.labels))
        for source, of_classes in zip((None, *texts), shares, strict=True):
            values |= {("share", source, number): s for number, s in enumerate(of_classes)}
        rest = {place: values.get(place, 0.0) for place in self.places}
        wide = np.array([*units_of(self.units, scaled), 1.0, *rest.values()])
        rest = [value for place, value in rest.items() if place[:2] != ("share", None)]
        narrow = np.array([1.0, *rest])
        scores = [each.scores(wide) for each in (self.wide.long, self.wide.short)]
        scores += [each.scores(narrow) for each in (self.narrow.long, self.narrow.short)]
        if self.softmaxes:
            pairs = zip(self.softmaxes, (wide, narrow), strict=True)
            scores += [each.probabilities(row, len(self.labels)) for each, row in pairs]
            scores.append(shares[0] + 1 / len(self.labels))
        return wide, narrow, np.array(scores), seen, each

    def scores(self, x):
        """Return the forecast, which leaves no trace."""
        return self.mixture(self.answer(x)[0])

    def answer(self, x):
        found = self.waiting.get(sample_key(x))
        if self.late and found and found["count"] == len(self.columns):
            return found["scores"], found
        row = literal_row(self.names, x)
        last, scaled = self.columns[-1], self.scaled(row)
        scores = self.look(x, last, scaled)[2]
        is_scaled = found["is_scaled"] if found else False
        count = len(self.columns)
        forecast = {"count": count, "scores": scores, "last": last, "scaled": scaled}
        return scores, forecast | {"is_scaled": is_scaled, "row": row}

    def ask(self, x):
        """Let a forecast wait."""
        forecast = self.answer(x)[1]
        if self.late and not forecast["is_scaled"]:
            self.learn_scale(x, forecast["row"])
            forecast["is_scaled"] = True
        self.waiting[sample_key(x)] = forecast

    def mixture(self, scores):
        shares = self.shares()
        return shares @ np.clip(scores[: len(shares)], -0.5, 1.5)

    def probabilities(self, mixture, scale):
        q = np.exp(scale * (mixture - mixture.max()))
        n_rows = len(self.columns)
        return (n_rows * q / q.sum() + 1.0) / (n_rows + len(mixture))

    def predict_proba(self, x):
        return self.probabilities(
            self.scores(x), SOFTMAX_SCALES[np.argmin(self.losses + SCALE_PENALTIES)]
        )

    def grow(self, x, y, names):
        is_new = y not in self.labels
        self.labels += [y] * is_new
        added = range(len(self.names), len(names))
        self.places += [("feature", number) for number in added]
        self.places += [("label", len(self.labels) - 1)] * is_new
        for name in names[len(self.names) :]:
            self.features.append(LiteralFeature([literal_row([name], x)[0] for x in self.samples]))
        self.names, self.units = names, self.units.grown(names, 0)
        self.draws = self.draws.grown(names, 0, 0)
        for name in sorted(x.keys() - set(self.crowded), key=repr):
            others = [each for each in names if isinstance(each, tuple) and each[0] == name]
            if isinstance(x[name], str) and (name, x[name]) not in names:
                assert len(others) >= self.most_texts
                self.crowded.append(name)
        shares = [(source, k) for source in (None, *self.crowded) for k in range(len(self.labels))]
        shares = [("share", *each) for each in shares]
        self.places += [place for place in shares if place not in self.places]
        narrow = [place for place in self.places if place[:2] != ("share", None)]
        sizes = 1 + len(narrow), N_UNITS + 1 + len(self.places)
        for pair, size in zip((self.narrow, self.wide), sizes, strict=True):
            pair.long = pair.long.grown(size, len(self.labels))
            pair.short = pair.short.grown(size, len(self.labels))
        return is_new

    def learn(self, x, y, names, w=1.0):
        n_rows, forecast = len(self.columns), self.waiting.get(sample_key(x))
        how_late = n_rows - forecast["count"] if forecast else self.how_late
        late = how_late > 0
        if late and not self.softmaxes:
            self.notice_late()
        forecast, is_new = self.waiting.pop(sample_key(x), None), self.grow(x, y, names)
        row, column = literal_row(self.names, x), self.labels.index(y)
        scaled, is_judged = self.scaled(row), not is_new
        # The labels that were there when this row was predicted.
        before = self.columns[: max(0, n_rows - self.delay)]
        last = before[-1] if before else None
        is_fresh = not forecast or not (late or forecast["is_scaled"])
        if not is_fresh:
            last = forecast["last"]
            scaled[: len(forecast["scaled"])] = forecast["scaled"]
        wide, narrow, scores, seen, each = self.look(x, last, scaled)
        if not is_fresh:
            given = forecast["scores"]
            is_judged = column < given.shape[1]
            scores[: len(given)] = 0.0
            scores[: len(given), : given.shape[1]] = given
        errs = self.judge(scores, column, w, late) if is_judged else np.zeros(len(scores))
        target = np.eye(len(self.labels))[column]
        self.cells.learn(seen, each, column, is_new, w)
        self.wide.learn(wide, target, errs[:2] * (not late), w)
        self.narrow.learn(narrow, target, errs[2:4] * (not late), w)
        for softmax, activations in zip(self.softmaxes, (wide, narrow), strict=False):
            softmax.learn(activations, target, w)
        if not forecast or not forecast["is_scaled"]:
            self.learn_scale(x, row)
        self.columns.append(column)
        self.how_late = how_late

    def judge(self, scores, column, w, late):
        if len(self.columns) % 4 == 0:
            mixture = self.mixture(scores)
            self.losses -= [
                w * np.log(self.probabilities(mixture, a)[column]) for a in SOFTMAX_SCALES
            ]
        errs = (scores[:, column] < scores.max(axis=1) - 1e-9).astype(float)
        self.errors = (0.998 if late else 0.995) * self.errors + w * errs
        return errs
