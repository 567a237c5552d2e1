"""Solves one instance as the published schedulers do: cvxpy on top of ECOS.

Reads {"program", "w", "weight", "capacity"} as JSON from stdin, where program is one of

    equal-level   maximise sum of utilities, all utilities per weight equal       (OEF non-cooperative)
    envy-free     maximise sum of utilities, nobody envies anybody per weight     (OEF cooperative)
    nash          maximise the weighted sum of the logarithms of the utilities    (CEEI)

and writes {"seconds", "objective", "status", "versions"}: seconds of building and solving, without imports.
Called by `cargo bench -p arles-lp --bench published`; needs `pip install cvxpy ecos`.
"""

import json
import sys
import time

import cvxpy as cp
import ecos
import numpy as np


def program(name, w, weight, capacity):
    n, k = w.shape
    x = cp.Variable((n, k), nonneg=True)
    utilities = cp.sum(cp.multiply(w, x), axis=1)
    rows = [cp.sum(x, axis=0) <= capacity]
    if name == "equal-level":
        level = cp.Variable()
        rows.append(utilities == weight * level)
    elif name == "envy-free":
        value = (w @ x.T) @ np.diag(1.0 / weight)
        own = cp.reshape(cp.multiply(utilities, 1.0 / weight), (n, 1), order="C")
        rows.append(own @ np.ones((1, n)) >= value)
    elif name == "nash":
        return cp.Problem(cp.Maximize(cp.sum(cp.multiply(weight, cp.log(utilities)))), rows)
    else:
        sys.exit(f"unknown program {name!r}; expected equal-level, envy-free or nash")
    return cp.Problem(cp.Maximize(cp.sum(utilities)), rows)


def main():
    asked = json.load(sys.stdin)
    w = np.array(asked["w"], dtype=float)
    weight = np.array(asked["weight"], dtype=float)
    capacity = np.array(asked["capacity"], dtype=float)
    began = time.perf_counter()
    problem = program(asked["program"], w, weight, capacity)
    problem.solve(solver=cp.ECOS)
    seconds = time.perf_counter() - began
    versions = f"cvxpy {cp.__version__}, ECOS {ecos.__version__}"
    json.dump({"seconds": seconds, "objective": float(problem.value), "status": problem.status, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
