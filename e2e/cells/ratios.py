#!/usr/bin/env python3
"""How well the ratio of two kinds can be told at all from what a table says of workloads, to put beside the speed-ups of `arles learn eval`.

    python3 e2e/cells/ratios.py timm.csv rtx3090 rtx4090 pt240/eager/nchw/amp

Needs numpy. A Gaussian process that has nothing to do but this one ratio, on workloads measured on both kinds under one stack: features are sizes as
logarithms, then these and the rate on the first kind. Families are held out in eight folds. The constant is the median ratio of the other families.
"""

import csv
import math
import sys

FOLDS = 8
# Of the process: variance and length of the kernel, variances of a linear part, of a family and of noise.
KERNEL, LENGTH, LINEAR, FAMILY, NOISE = 0.01, 1.2, 0.003, 0.002, 0.002


def read(path, kinds, stack):
    """What is known of each workload, by kind."""
    cells = {kind: {} for kind in kinds}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] in kinds and row["stack"] == stack and row["flops_per_step"]:
                cells[row["kind"]][row["workload"]] = row
    return cells


def features(row, with_rate):
    batch, params = float(row["batch"]), float(row["params"])
    flops, traffic = float(row["flops_per_step"]) / batch, float(row["bytes_per_step"]) / batch
    known = [params, flops, traffic, flops / traffic, batch]
    if with_rate:
        rate = float(row["rate_steps_per_second"]) * batch
        known += [rate, rate * flops, rate * traffic]
    return [math.log(x) for x in known]


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: ratios.py CELLS.csv KIND OTHER-KIND STACK")
    import numpy

    path, one, two, stack = sys.argv[1:]
    cells = read(path, (one, two), stack)
    names = sorted(set(cells[one]) & set(cells[two]))
    if len(names) < 20:
        sys.exit(f"{path}: {len(names)} workloads were measured on {one} and on {two} under {stack}; expected 20 or more")
    ln = lambda row: math.log(float(row["rate_steps_per_second"]) * float(row["batch"]))
    ratio = numpy.array([ln(cells[two][name]) - ln(cells[one][name]) for name in names])
    family = numpy.array([cells[one][name]["family"] or name for name in names])
    order = numpy.random.default_rng(1).permutation(sorted(set(family)))
    fold = numpy.array([list(order).index(f) % FOLDS for f in family])

    def process(x, train, test):
        def kernel(a, b):
            apart = ((x[a][:, None] - x[b][None]) ** 2).sum(2)
            same = family[a][:, None] == family[b][None]
            return KERNEL * numpy.exp(-0.5 * apart / LENGTH**2) + LINEAR * x[a] @ x[b].T / x.shape[1] + FAMILY * same

        mean = ratio[train].mean()
        covariance = kernel(train, train) + NOISE * numpy.eye(len(train))
        return mean + kernel(test, train) @ numpy.linalg.solve(covariance, ratio[train] - mean)

    print(f"{two} over {one}: {len(names)} workloads of {len(order)} families")
    ways = [("constant", None), ("nothing seen", False), (f"rate on {one} seen", True)]
    for what, with_rate in ways:
        errors = numpy.zeros(len(names))
        if with_rate is not None:
            x = numpy.array([features(cells[one][name], with_rate) for name in names])
            x = (x - x.mean(0)) / x.std(0)
        for held in range(FOLDS):
            train, test = numpy.where(fold != held)[0], numpy.where(fold == held)[0]
            told = numpy.median(ratio[train]) if with_rate is None else process(x, train, test)
            errors[test] = told - ratio[test]
        errors = 100 * abs(numpy.exp(errors) - 1)
        print(f"{what}: mean {errors.mean():.1f} %, median {numpy.median(errors):.1f} %")


if __name__ == "__main__":
    main()
