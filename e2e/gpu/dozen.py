"""A dozen jobs on one GPU under arles itself: one at a time, in pairs, under power limits. As root, with an NVIDIA GPU and PyTorch:

    python3 dozen.py --arles target/release/arles --table docs/data/h200-pairs-and-limits.csv --out OUT

Every workload of workloads.py is a job of as many steps as it does alone in --seconds. What the daemon knows beforehand is taken from the table:

    one-at-a-time   fifo
    estimated       gogh with `learned`: each workload alone is known, by rate, watts and counters, and pairs are estimated
    profiled        gogh: all pairs are known (the oracle of exhaustive profiling)
    limits          gogh with power limits: as `profiled`, and each workload alone under limits is known

With --floor F every job is promised F of its speed alone while it runs; the slowest that any was measured at is printed beside it. Prints energy by the card's own counter, makespan, and what the daemon's accounts add up to; writes OUT/runs.json and OUT/runs.csv.
Programs start Python and PyTorch anew: that is in all figures. Limits and MPS are the daemon's to put back, and are looked at in the end.
"""

import argparse
import csv
import json
import pathlib
import shlex
import sys
import tempfile
import time

from live import Daemon, counter

HERE = pathlib.Path(__file__).resolve().parent
RUNS = {
    "one-at-a-time": ("fifo", ("alone",), False),
    "estimated": ("gogh", ("alone",), False),
    "profiled": ("gogh", ("alone", "pairs"), False),
    "limits": ("gogh", ("alone", "pairs", "limits"), True),
}


def number(text):
    return None if text in ("", "-", "NaN") else float(text)


def read(path):
    """Rows of the table: alone, pairs, limits."""
    found = {"alone": [], "pairs": [], "limits": []}
    with open(path) as file:
        for row in csv.DictReader(file):
            if number(row["steps_per_second"]) is None:
                continue
            limit, partner = number(row["limit_watts"]), row["partner"]
            found["limits" if limit else "pairs" if partner != "-" else "alone"].append(row)
    return found


def cells(table, which, kind):
    """What the catalog is told, in arles' own CSV."""
    lines = ["workload,kind,gang,partner,rate_steps_per_second,watts,source,observations,doubt"]
    for row in (row for name in which for row in table[name]):
        limit, partner = number(row["limit_watts"]), row["partner"] if row["partner"] != "-" else ""
        mode = f"{kind}@{limit:.0f}W" if limit else kind
        lines.append(f"{row['workload']},{mode},1,{partner},{row['steps_per_second']},{row['watts']},measured,1,0.03")
    return "\n".join(lines) + "\n"


def counters(row):
    """What `arles profile` saw of a workload alone, as words of 'arles submit'."""
    seen = {"gpu-utilisation": number(row["utilisation"]), "bandwidth-utilisation": number(row["memory_utilisation"])}
    return ["--profile", ",".join(f"{name}={part}" for name, part in seen.items() if part is not None)]


def slowest_of(table, catalog, told):
    """The least part of its speed alone that a job was measured at in this run, and where; cells that the daemon was told and never saw do not count."""
    alone = {row["workload"]: float(row["steps_per_second"]) for row in table["alone"]}
    key = lambda row: (row["workload"], row["kind"], row["partner"])
    before = {key(row): row for row in csv.DictReader(told.splitlines())}
    found = []
    for row in csv.DictReader(catalog.splitlines()):
        known, rate = before.get(key(row)), number(row["rate_steps_per_second"])
        if rate and row["workload"] in alone and (known is None or int(row["observations"]) > int(known["observations"])):
            found.append((rate / alone[row["workload"]], f"{row['workload']} beside {row['partner'] or 'nobody'} on {row['kind']}"))
    return min(found, default=None)


def words(options, name):
    """How the daemon is started for a run."""
    policy, _, limited = RUNS[name]
    words = ["--policy", policy, "--estimator", options.estimator, "--tenants", "lab:1", "--round", "2s", "--survey", "1s", "--restart", "10s"]
    words += shlex.split(options.serve)
    if policy == "gogh":
        words += shlex.split(options.sharing)
    if limited:
        watts = sorted({number(row["limit_watts"]) for row in read(options.table)["limits"]})
        words += ["--power-limits", ",".join(f"{options.kind}@{limit:.0f}W" for limit in watts)]
    return words


def one(options, name, root):
    table = read(options.table)
    daemon = Daemon(options.arles, root / name, words(options, name), cells(table, RUNS[name][1], options.kind))
    before, began = counter(options.arles), time.time()
    numbers = []
    for row in sorted(table["alone"], key=lambda row: row["workload"]):
        workload, steps = row["workload"], str(int(float(row["steps_per_second"]) * options.seconds))
        job = ["--tenant", "lab", "--name", workload, "--workload", workload, "--steps", steps, "--restart", "10s", "--chdir", str(root / name), *counters(row)]
        if options.floor > 0:
            job += ["--floor", str(options.floor * float(row["steps_per_second"]))]
        numbers.append(daemon.run("submit", "--quiet", *job, "--", options.python, options.workloads, workload, steps).strip())
    looks = []
    for live in daemon.until_idle(options.limit):
        running = [(job["name"], job.get("kind")) for job in live if job.get("state") == "running"]
        if not looks or looks[-1]["running"] != running:
            looks.append({"at": round(time.time() - began, 1), "running": running})
    ended, after = time.time(), counter(options.arles)
    time.sleep(1.5)
    later = counter(options.arles)
    energy = {by: daemon.json("energy", "--by", by) for by in ("job", "kind")}
    print(daemon.run("energy", "--by", "job"), flush=True)
    ends = {number: daemon.json("show", number)["state"] for number in numbers}
    if (undone := {number: state for number, state in ends.items() if state != "completed"}):
        print(f"{name}: not completed: {undone}", flush=True)
    estimates = daemon.run("catalog", "--catalog", str(daemon.folder / "state"), "list", "-o", "csv", check=False)
    slowest = slowest_of(table, estimates or "", cells(table, RUNS[name][1], options.kind))
    daemon.stop()
    joules = None if before is None else after - before
    print(f"{name}: {joules} J by the counter ({None if before is None else later - before} J until the accounts were read), {ended - began:.1f} s", flush=True)
    accounts = sum(sum(row["energy"].values()) + row.get("unused_joules", 0) for row in energy["kind"]["rows"])
    print(f"{name}: accounts add up to {accounts:.0f} J", flush=True)
    if slowest:
        print(f"{name}: promised {options.floor}; slowest {slowest[0]:.2f} of its speed alone ({slowest[1]})", flush=True)
    return {"run": name, "floor": options.floor, "joules": joules, "seconds": ended - began, "looks": looks, "energy": energy, "catalog": estimates}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arles", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--seconds", type=float, default=16.0, help="of each job alone")
    parser.add_argument("--floor", type=float, default=0.0, help="promised part of each job's speed alone")
    parser.add_argument("--kind", default="h200")
    parser.add_argument("--estimator", default="learned")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--workloads", default=str(HERE / "workloads.py"))
    parser.add_argument("--serve", default="", help="more words for 'arles serve'")
    parser.add_argument("--sharing", default="--sharing mps")
    parser.add_argument("--limit", type=float, default=500.0, help="seconds that a run may take")
    options = parser.parse_args()
    # Programs run in a folder of their own.
    options.arles, options.workloads = (str(pathlib.Path(path).resolve()) for path in (options.arles, options.workloads))
    options.out.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(tempfile.mkdtemp(prefix="arles-dozen-"))
    results = []
    for name in options.runs.split(","):
        results.append(one(options, name, root))
        (options.out / "runs.json").write_text(json.dumps(results, indent=1))
        (options.out / f"{name}.log").write_bytes((root / name / "serve.log").read_bytes())
    first = results[0]
    print("run,joules,seconds,energy,time")
    for result in results:
        energy = "" if None in (result["joules"], first["joules"]) else f"{result['joules'] / first['joules']:.3f}"
        print(f"{result['run']},{result['joules']},{result['seconds']:.1f},{energy},{result['seconds'] / first['seconds']:.3f}")


if __name__ == "__main__":
    main()
