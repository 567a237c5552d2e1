"""One card as a cluster of three kinds: slices (MIG), three tenants, thirty jobs, two policies. As root, with an idle H200 and PyTorch:

    python3 slices.py --arles target/release/arles --out OUT

The daemon divides the card itself (--mig-layout) and makes it whole again. Each tenant submits ten jobs of a workload of its own at once; rates on slices are
not known before the first run, which is under the first policy. Writes OUT/POLICY.json (jobs with their times), OUT/POLICY-cells.csv (what was measured) and
prints mean completion time, makespan, and the shares that each tenant was granted and received.
"""

import argparse
import json
import pathlib
import shlex
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
    options = parser.parse_args()
    options.arles = str(pathlib.Path(options.arles).resolve())
    options.out.mkdir(parents=True, exist_ok=True)
    root, cells = pathlib.Path(tempfile.mkdtemp(prefix="arles-slices-")), ""
    for policy in options.policies.split(","):
        cells = one(options, policy, cells, root)


if __name__ == "__main__":
    main()
