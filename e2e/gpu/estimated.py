"""What estimates of a table's cells are worth before the cells were measured: pairs that share the card, and workloads under power limits.

    python3 estimated.py --arles target/release/arles --table docs/data/h200-pairs-and-limits.csv

Twice. *alone*: of every workload its rate, watts and counters alone at the card's own limit are known and nothing else, as after a first run of each. *others*: so
is every pair and limit of the other workloads (leave one workload out). Estimates are those of `arles estimate`. Printed are, by estimator, the median and
mean of |estimate / measured - 1| of rates and watts, the median of estimate / measured, and how often the 90 % interval of the rate, estimate · exp(±1.645 · standard error), holds
what was measured. `unchanged` estimates nothing: as alone at the card's own limit, and in a pair half of it.
"""

import argparse
import concurrent.futures
import csv
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cells"))
from convert import COLUMNS, h200  # noqa: E402

KIND, NINETY = "h200", 1.645


def read(path):
    """Rows of the table for `--rates`, and what was measured: (workload, partner or "", limit or "") → (rate, watts)."""
    rows = [{name: "" if value is None else str(value) for name, value in row.items()} for row in h200([path])]
    return rows, {(row["workload"], row["partner"], row["limit_watts"]): (float(row["rate_steps_per_second"]), float(row["watts"])) for row in rows}


def ask(options, file, estimator, words):
    command = [options.arles, "estimate", "--rates", str(file), "--estimator", estimator, "-o", "csv", *words]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode != 0:
        sys.exit(f"{' '.join(command)}: {said.stderr}")
    return list(csv.DictReader(said.stdout.splitlines()))


def known(folder, name, rows):
    file = folder / f"{name}.csv"
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file


def about(options, file, estimator, workloads, partners, limits):
    """Estimates of these workloads beside these partners and under all limits: key → (rate, watts, standard error)."""
    found = {}
    figures = lambda row: tuple(float(row[name]) for name in ("rate_steps_per_second", "watts", "standard_error_ratio"))
    # Of one workload the answer does not name it.
    for partner in partners:
        beside = [name for name in workloads if name != partner]
        for row in ask(options, file, estimator, ["--workload", ",".join(beside), "--beside", partner, "--kind", KIND]) if beside else ():
            if row["rate_steps_per_second"]:
                found[row.get("workload", beside[0]), partner, ""] = figures(row)
    kinds = {f"{KIND}@{float(limit):.0f}W": limit for limit in limits}
    for row in ask(options, file, estimator, ["--workload", ",".join(workloads), "--kind", ",".join(kinds)]):
        if row["rate_steps_per_second"]:
            found[row.get("workload", workloads[0]), "", kinds[row["kind"]]] = figures(row)
    return found


def line(task, cells, estimator, estimates, truth, keys):
    keys = [key for key in keys if key in estimates]
    if not keys:
        return print(f"{task:<7} {cells:<7} {estimator:<11}     0")
    rates = [estimates[key][0] / truth[key][0] for key in keys]
    watts = [abs(estimates[key][1] / truth[key][1] - 1) for key in keys if math.isfinite(estimates[key][1])]
    held = [abs(math.log(rate)) <= NINETY * estimates[key][2] for rate, key in zip(rates, keys)]
    off = [abs(rate - 1) for rate in rates]
    power = f"{statistics.median(watts):6.1%} {statistics.mean(watts):6.1%}" if watts else f"{'-':>6} {'-':>6}"
    holds = f"{statistics.mean(held):5.0%}" if math.isfinite(estimates[keys[0]][2]) else f"{'-':>5}"
    print(f"{task:<7} {cells:<7} {estimator:<11} {len(keys):5} {statistics.median(off):6.1%} {statistics.mean(off):7.1%} {statistics.median(rates):6.2f} {holds} {power}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arles", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--estimators", default="learned,stacked,process,nearest,mean,model")
    parser.add_argument("--tasks", default="alone,others")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.arles = str(pathlib.Path(options.arles).resolve())
    rows, truth = read(options.table)
    names = sorted({row["workload"] for row in rows})
    limits = sorted({row["limit_watts"] for row in rows} - {""}, key=float)
    pairs, limited = [key for key in truth if key[1]], [key for key in truth if key[2]]
    first = [row for row in rows if not row["partner"] and not row["limit_watts"]]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="arles-estimated-"))
    print(f"{len(names)} workloads; {len(pairs)} rates in {len(pairs) // 2} pairs, {len(limited)} under limits of {', '.join(f'{float(limit):.0f}' for limit in limits)} W")
    print(f"{'known':<7} {'cells':<7} {'estimator':<11} cells   rate off by      of it  90 %  watts off by")
    print(f"{'':<27} {'':<5} median    mean median holds median   mean")
    unchanged = {key: (truth[key[0], "", ""][0] * (0.5 if key[1] else 1.0), truth[key[0], "", ""][1], math.nan) for key in pairs + limited}
    # Of a pair, the power of the one that draws more.
    unchanged.update({key: (unchanged[key][0], max(truth[name, "", ""][1] for name in key[:2]), math.nan) for key in pairs})
    for task in options.tasks.split(","):
        for estimator in ["unchanged", *options.estimators.split(",")] if task == "alone" else options.estimators.split(","):
            if estimator == "unchanged":
                estimates = unchanged
            elif task == "alone":
                estimates = about(options, known(folder, "alone", first), estimator, names, names, limits)
            else:
                def without(held):
                    file = known(folder, f"without-{held}", [row for row in rows if row in first or held not in (row["workload"], row["partner"])])
                    return about(options, file, estimator, [held], names, limits)

                with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
                    estimates = {key: value for part in pool.map(without, names) for key, value in part.items()}
            for cells, keys in (("pairs", pairs), ("limits", limited)):
                line(task, cells, estimator, estimates, truth, keys)


if __name__ == "__main__":
    main()
