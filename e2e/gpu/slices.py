"""One card as a cluster of three kinds: slices (MIG), three tenants, thirty jobs, two policies. As root, with an idle H200 and PyTorch:

    python3 slices.py --arles target/release/arles --out OUT

The daemon divides the card itself (--mig-layout) and makes it whole again. Each tenant submits ten jobs of a workload of its own at once; rates on slices are
not known before the first run, which is under the first policy. Writes OUT/POLICY.json (jobs with their times), OUT/POLICY-cells.csv (what was measured) and
prints mean completion time, makespan, and the shares that each tenant was granted and received. In the end the same jobs are played by the simulator with the
rates that were measured, and each policy's mean completion time is printed beside the real one; --only-simulate does that with what is in OUT.
"""

import argparse
import csv
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from live import Daemon

HERE = pathlib.Path(__file__).resolve().parent
# Tenant, workload, and steps of each job: about 12 s on the slice that suits it.
JOBS = (("vision", "convolutions-batch-1", 1500), ("speech", "transformer-small", 1400), ("search", "matrices", 2600))


def one(options, policy, cells, root):
    words = ["--policy", policy, "--tenants", ",".join(f"{tenant}:1" for tenant, *_ in JOBS), "--round", "2s", "--survey", "1s", "--restart", "8s"]
    daemon = Daemon(options.arles, root / policy, words + shlex.split(options.serve), cells)
    print(daemon.run("nodes"), daemon.run("gpus", check=False), sep="\n", flush=True)
    began, numbers = time.time(), []
    for _ in range(options.jobs):
        for tenant, workload, steps in JOBS:
            steps = str(int(steps * options.scale))
            job = ["--tenant", tenant, "--workload", workload, "--steps", steps, "--restart", "8s", "--chdir", str(root / policy)]
            numbers.append(daemon.run("submit", "--quiet", *job, "--", options.python, options.workloads, workload, steps).strip())
    audit, shown = None, 0
    for live in daemon.until_idle(options.limit, every=1.0):
        # Shares mean something while everybody has work.
        if len({job["tenant"] for job in live}) == len(JOBS):
            audit = daemon.run("audit", check=False) or audit
        shown += 1
        if shown == 20:
            print(daemon.run("queue"), flush=True)
    seconds = time.time() - began
    # Programs outlive the daemon, and a card with programs on it stays divided.
    for job in daemon.json("queue"):
        daemon.run("cancel", str(job["id"]), check=False)
    for _ in daemon.until_idle(30.0):
        pass
    jobs = [daemon.json("show", number) for number in numbers]
    cells = daemon.run("catalog", "--catalog", str(daemon.folder / "state"), "list", "-o", "csv", check=False)
    print(audit, daemon.run("energy", "--by", "kind"), sep="\n", flush=True)
    daemon.stop()
    (options.out / f"{policy}.json").write_text(json.dumps({"policy": policy, "began": began, "seconds": seconds, "jobs": jobs}, indent=1))
    (options.out / f"{policy}-cells.csv").write_text(cells or "")
    (options.out / f"{policy}.log").write_bytes((daemon.folder / "serve.log").read_bytes())
    print(f"{policy}: makespan {seconds:.1f} s", flush=True)
    return cells


def simulated(options, policies):
    """Mean completion times of the same jobs in the simulator, with the rates of the last run, beside the real ones."""
    real = {policy: json.loads((options.out / f"{policy}.json").read_text())["jobs"] for policy in policies}
    with open(options.out / f"{policies[-1]}-cells.csv") as file:
        rates = {}
        for row in csv.DictReader(file):
            if not row["partner"]:
                rates.setdefault(row["kind"], {})[f"('{row['workload']}', 1)"] = {"null": float(row["rate_steps_per_second"])}
    (options.out / "rates.json").write_text(json.dumps(rates, indent=1))
    jobs = real[policies[-1]]
    lines = ["job_id,tenant,workload,gang,arrival_seconds,steps,restart_seconds"]
    for job in jobs:
        at = job["submitted_at"] - jobs[0]["submitted_at"]
        lines.append(f"{job['id']},{job['tenant']},{job['workload']},1,{at:.3f},{job['steps']:.0f},{job['restart_seconds']:.0f}")
    (options.out / "trace.csv").write_text("\n".join(lines) + "\n")
    played = options.out / "simulated.csv"
    words = ["simulate", "--trace", options.out / "trace.csv", "--rates", options.out / "rates.json", "--cluster", options.cluster, "--gpus-per-node", "4"]
    words += ["--policy", ",".join(policies), "--round", "2s", "--start", options.start, "--jobs-csv", played]
    subprocess.run([options.arles, *words], check=True, stdout=subprocess.DEVNULL)
    with open(played) as file:
        rows = list(csv.DictReader(file))
    for policy in policies:
        took = [job["ended_at"] - job["submitted_at"] for job in real[policy] if job["state"] == "completed"]
        mean = statistics.mean(float(row["jct_seconds"]) for row in rows if row["policy"] == policy)
        print(f"{policy}: mean completion {statistics.mean(took):.1f} s ({len(took)} jobs), in the simulator {mean:.1f} s: {mean / statistics.mean(took) - 1:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arles", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--policies", default="oef-coop,max-min-agnostic")
    parser.add_argument("--jobs", type=int, default=10, help="of each tenant")
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps of all jobs")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--workloads", default=str(HERE / "workloads.py"))
    parser.add_argument("--serve", default="--mig-layout h200=3g.71gb+2g.35gb+1g.18gb+1g.18gb", help="more words for 'arles serve'")
    parser.add_argument("--limit", type=float, default=250.0, help="seconds that a run may take")
    parser.add_argument("--cluster", default="h200-3g.71gb:1,h200-2g.35gb:1,h200-1g.18gb:2", help="the same for the simulator")
    parser.add_argument("--start", default="8s", help="what a start takes, for the simulator")
    parser.add_argument("--only-simulate", action="store_true", help="play what is in OUT")
    options = parser.parse_args()
    options.arles = str(pathlib.Path(options.arles).resolve())
    options.out.mkdir(parents=True, exist_ok=True)
    root, cells = pathlib.Path(tempfile.mkdtemp(prefix="arles-slices-")), ""
    policies = options.policies.split(",")
    for policy in () if options.only_simulate else policies:
        cells = one(options, policy, cells, root)
    simulated(options, policies)


if __name__ == "__main__":
    main()
