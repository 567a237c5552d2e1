#!/usr/bin/env python3
"""Gradient boosting on a table of cells, to put beside `arles learn eval`: rates of new families, and their ratio between two kinds.

    python3 e2e/cells/boosting.py timm.csv rtx3090 rtx4090

Needs numpy and scikit-learn. Families are held out in five folds; features are whatever the columns hold, as logarithms, holes left to the trees.
"""

import csv
import math
import sys

SIZES = "batch,params,flops_per_step,bytes_per_step,kernels_per_step,memory_gib".split(",")
PARTS = "gpu_utilisation,bandwidth_utilisation,power_utilisation".split(",")
FOLDS = 5


def read(path, kinds):
    """ln samples per second by (workload, stack) and kind, and what is known of each."""
    rates, known = {}, {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] not in kinds or row["partner"] or row["gang"] not in ("", "1") or row["limit_watts"]:
                continue
            rate = float(row["rate_steps_per_second"]) * float(row["batch"] or 1)
            if rate > 0:
                name = (row["workload"], row["stack"])
                rates.setdefault(name, {}).setdefault(row["kind"], []).append(math.log(rate))
                known.setdefault(name, row)
    return {name: {kind: sum(ln) / len(ln) for kind, ln in by.items()} for name, by in rates.items()}, known


def features(row):
    batch = float(row["batch"] or 1)
    sizes = [math.log(float(row[c]) / (batch if "per_step" in c else 1)) if row[c] else math.nan for c in SIZES]
    return sizes + [float(row[c]) if row[c] else math.nan for c in PARTS]


def show(what, errors):
    errors = sorted(100 * abs(math.exp(e) - 1) for e in errors)
    mean = sum(errors) / len(errors)
    print(f"{what}: mean {mean:.1f} %, median {errors[len(errors) // 2]:.1f} %, p90 {errors[len(errors) * 9 // 10]:.1f} % of {len(errors)}")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: boosting.py CELLS.csv KIND OTHER-KIND")
    import numpy
    from sklearn.ensemble import HistGradientBoostingRegressor

    path, one, two = sys.argv[1:]
    rates, known = read(path, (one, two))
    names = sorted(name for name in rates if len(rates[name]) == 2)
    x = numpy.array([features(known[name]) for name in names])
    # A column that nobody filled in says nothing, and newer versions of scikit-learn fail on it.
    x = x[:, [len(set(column[~numpy.isnan(column)])) > 1 for column in x.T]]
    families = [known[name]["family"] or name[0] for name in names]
    order = sorted(set(families))
    fold = numpy.array([order.index(family) % FOLDS for family in families])
    first = numpy.array([rates[name][one] for name in names])
    ratio = numpy.array([rates[name][two] for name in names]) - first
    with_rate = numpy.column_stack([x, first])
    for what, inputs, truth in (
        (f"rate on {one}, nothing seen", x, first),
        (f"{two} over {one}, nothing seen", x, ratio),
        (f"{two} over {one}, rate on {one} seen", with_rate, ratio),
    ):
        errors = []
        for held in range(FOLDS):
            test = fold == held
            trees = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.06, max_leaf_nodes=12)
            errors.extend(trees.fit(inputs[~test], truth[~test]).predict(inputs[test]) - truth[test])
        show(what, errors)


if __name__ == "__main__":
    main()
