#!/usr/bin/env python3
"""The whole sheet of estimates: every table, every task, the target beside what `arles learn eval` scores.

    python3 e2e/cells/sheet.py target/release/arles DATA                    # stacked, all tables
    python3 e2e/cells/sheet.py target/release/arles DATA --estimators process,learned --only timm,miso

DATA is the folder with the published tables (timm, llm_inference_bench, morphling_gangs, miso_mig, zeus, gavel); ours is in docs/data.
A line says the error (of the kind the target is of), the mean, the median and the part of truths that the 90 % interval holds; "missed" where the error is above
the target, "wide" and "narrow" where the interval holds more than 93 or less than 87 %.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.join(HERE, "..", "..", "docs", "data", "h200-pairs-and-limits.csv")
FILES = {
    "timm": "timm/timm_rates.csv",
    "llm": "llm_inference_bench/llm_rates.csv",
    "morphling": "morphling_gangs/gang_rates.csv",
    "miso": "miso_mig/mig_rates.csv",
    "zeus": "zeus/summary_power_*.csv",
    "gavel": "gavel/simulation_throughputs.json",
}
WORKLOAD, FAMILY, KIND = "leave-workload-out", "leave-family-out", "leave-kind-out"
# Two stacks under which two kinds were measured each, as ORIGIN.md says they may be compared.
TIMM = lambda cell: cell["stack"] in ("pt240/eager/nchw/amp", "pt291/eager/nchw/amp")
OLDER = lambda cell: cell["stack"] == "pt240/eager/nchw/amp"
NEWER = lambda cell: cell["stack"] == "pt291/eager/nchw/amp"
ALL = lambda cell: True
# table, lines of it, split, options, [(observations, cells, what the target is of, target, task)]
TASKS = [
    ("timm", TIMM, FAMILY, [], [
        ("0", "solo", "median", 13, "new family, nothing seen: rate"),
        ("0", "speedup", "mape", 5, "new family, nothing seen: speed-up"),
        ("1", "speedup", "mape", 5, "new family, one kind seen: speed-up"),
    ]),
    ("timm", OLDER, KIND, [], [
        ("0", "solo", "mape", 12.5, "new kind, one known (3090, 4090), nothing measured there"),
        ("1", "solo", "mape", 12.5, "the same, one workload measured there"),
        ("4", "solo", "mape", None, "the same, four workloads measured there"),
    ]),
    ("timm", NEWER, KIND, [], [
        ("0", "solo", "mape", 12.5, "new kind, one known (4090, Pro 6000), nothing measured there"),
        ("1", "solo", "mape", 12.5, "the same, one workload measured there"),
    ]),
    ("timm", TIMM, KIND, [], [
        ("0", "solo", "mape", 9, "new kind, two known, nothing measured there"),
        ("1", "solo", "mape", 9, "the same, one workload measured there"),
    ]),
    ("miso", ALL, FAMILY, [], [
        ("0", "speedup", "mape", 15, "MIG slices, new family, nothing seen: speed-up"),
        ("1", "solo", "mape", 15, "MIG slices, new family, one slice seen"),
    ]),
    ("llm", ALL, KIND, [], [
        ("0", "solo", "median", None, "LLM serving, new kind (three makers), nothing measured there"),
        ("4", "solo", "mape", None, "the same, four workloads measured there"),
    ]),
    ("llm", ALL, FAMILY, [], [
        ("0", "solo", "mape", None, "LLM serving, new model"),
        ("1", "solo", "mape", None, "the same, one kind seen"),
        ("1", "gang", "mape", None, "the same: gangs"),
    ]),
    ("morphling", ALL, WORKLOAD, [], [
        ("0", "gang", "median", None, "gangs by size, nothing seen"),
        ("1", "gang", "mape", None, "gangs by size, one GPU seen"),
    ]),
    ("zeus", ALL, WORKLOAD, [], [
        ("1", "solo", "mape", None, "power limits, one limit seen"),
        ("1", "watts", "mape", None, "the same: watts"),
    ]),
    ("h200", ALL, WORKLOAD, [], [
        ("0", "pair", "mape", None, "pairs known by counters, new workload"),
        ("1", "solo", "mape", None, "power limits, one limit seen"),
        ("0", "watts", "mape", None, "watts by counters"),
    ]),
    ("h200", ALL, FAMILY, [], [
        ("0", "pair", "mape", 8.5, "pairs known by counters, new family"),
    ]),
    ("gavel", ALL, WORKLOAD, [], [
        ("0", "pair", "mape", 9.7, "new workload: pairs, nothing seen"),
        ("4", "pair", "mape", 8.7, "new workload: pairs, four seen"),
        ("0", "solo", "mape", 13.2, "new workload: alone, nothing seen"),
        ("4", "solo", "mape", 11.0, "new workload: alone, four seen"),
    ]),
    ("gavel", ALL, FAMILY, [], [
        ("0", "pair", "mape", 22.3, "new family: pairs, nothing seen"),
        ("4", "pair", "mape", 17.7, "new family: pairs, four seen"),
        ("0", "solo", "mape", None, "new family: alone, nothing seen"),
        ("4", "solo", "mape", None, "new family: alone, four seen"),
    ]),
]


def table(name, data, lines, folder):
    """The table of cells, made once for each choice of lines."""
    path = os.path.join(folder, f"{name}-{[k for k, v in globals().items() if v is lines][0]}.csv")
    if os.path.exists(path):
        return path
    files = [OURS] if name == "h200" else sorted(glob.glob(os.path.join(data, FILES[name])))
    if not files:
        sys.exit(f"{os.path.join(data, FILES[name])} is not there; the second argument is the folder of published tables")
    sys.path.insert(0, HERE)
    import convert
    import csv

    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, convert.COLUMNS, lineterminator="\n")
        out.writeheader()
        for cell in convert.TABLES[name](files):
            if lines is ALL or lines(cell):
                out.writerow({key: "" if value is None else value for key, value in cell.items()})
    return path


def main():
    parser = argparse.ArgumentParser(description="Scores estimators on every table, each task beside its target.")
    parser.add_argument("arles", help="the binary")
    parser.add_argument("data", help="folder of published tables")
    parser.add_argument("--estimators", default="stacked", help="names, separated by commas [default: stacked]")
    parser.add_argument("--only", default=",".join([*FILES, "h200"]), help="tables, separated by commas")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folds", default="8", help="folds of a split at most, where families are many [default: 8]")
    parser.add_argument("--withhold", default="0", help="percentage of features that are withheld")
    options = parser.parse_args()
    names = options.estimators
    print(f"{'table':9} {'task':62} {'estimator':15} {'target':>6} {'mean':>6} {'median':>6} {'inside':>6} {'refused':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, lines, split, more, tasks in TASKS:
            if name not in options.only.split(","):
                continue
            path = table(name, options.data, lines, folder)
            folds = options.folds if name in ("timm", "llm", "zeus") else "32"
            command = [options.arles, "learn", "eval", "--rates", path, "--split", split, "--estimators", names, "--folds", folds]
            command += ["--observe", ",".join(sorted({t[0] for t in tasks})), "--seed", options.seed, "--withhold", options.withhold]
            told = subprocess.run([*command, *more, "-o", "json"], check=True, stdout=subprocess.PIPE).stdout
            results = json.loads(told)["results"]
            for seen, cells, of, target, task in tasks:
                for r in (r for r in results if r["observations"] == seen and r["cells"] == cells and r["split"] == split):
                    line(name, task, r, of, target)


def line(name, task, r, of, target):
    error, inside = r[f"{of}_percent"], r["coverage90_ratio"]
    marks = []
    if target is not None and error is not None and error > target + 0.05:
        marks.append("missed")
    if inside is not None and not 0.865 <= inside < 0.935:
        marks.append("narrow" if inside < 0.9 else "wide")
    show = lambda x, by=1: "-" if x is None else f"{by * x:.1f}"
    wanted = "" if target is None else f"{target:g}{'m' if of == 'median' else ''}"
    print(
        f"{name:9} {task:62} {r['estimator']:15} {wanted:>6} {show(r['mape_percent']):>6} {show(r['median_percent']):>6} "
        f"{show(inside, 100):>6} {r['refused']:>7} {' '.join(marks)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
