#!/usr/bin/env python3
"""Turns published tables of measurements into the one CSV of cells that `arles learn eval` and `arles estimate` read.

    python3 e2e/cells/convert.py timm timm_rates.csv > timm.csv

Tables: gavel (throughputs.json), timm, zeus (all its summary_power_*.csv), llm, morphling, miso, h200 (docs/data/h200-pairs-and-limits.csv).
Where each comes from, and its traps, stands in the ORIGIN.md beside it. Only the standard library is used. docs/learning.md describes the columns.
"""

import csv
import json
import os
import re
import sys

COLUMNS = (
    "workload,family,domain,mode,precision,stack,batch,params,flops_per_step,bytes_per_step,kernels_per_step,memory_gib,"
    "gpu_utilisation,bandwidth_utilisation,power_utilisation,kind,limit_watts,gang,nodes,partner,rate_steps_per_second,watts"
).split(",")


def rows(path):
    with open(path, newline="") as file:
        yield from csv.DictReader(file)


def number(text):
    return float(text) if text not in ("", None) else None


def part(text, whole=1.0):
    """A utilisation as a part of 1."""
    value = number(text)
    return None if value is None else min(max(value / whole, 0.0), 1.0)


def gavel(paths):
    """Gavel's JSON: gangs alone, single GPUs in pairs. arles reads it as it is; this is for comparing the two ways in."""
    (path,) = paths
    with open(path) as file:
        table = json.load(file)
    name = re.compile(r"\('(.*)', (\d+)\)")
    for kind, workloads in table.items():
        if kind.endswith("_unconsolidated"):
            continue
        for own, cells in workloads.items():
            workload, gang = name.fullmatch(own).groups()
            for other, rate in cells.items():
                cell = {"workload": workload, "kind": kind, "gang": gang}
                if other == "null":
                    yield cell | {"rate_steps_per_second": rate}
                elif gang == "1" and name.fullmatch(other).group(2) == "1":
                    yield cell | {"partner": name.fullmatch(other).group(1), "rate_steps_per_second": rate[0]}


def timm(paths):
    """Vision models of timm: one step is one batch. Activations are read and written once each way, in 16 bits."""
    (path,) = paths
    table = list(rows(path))
    size = {(r["workload"], r["image"]): (float(r["gmacs"]), float(r["macts"] or 0)) for r in table if r["gmacs"]}
    for r in table:
        batch, params = float(r["batch"]), float(r["params_m"]) * 1e6
        training = r["mode"] == "train"
        gmacs, macts = size.get((r["workload"], r["image"]), (None, None))
        cell = {
            "workload": f"{r['workload']}-{r['image']}" + ("-train" if training else ""),
            "family": r["family"],
            "domain": "vision",
            "mode": "training" if training else "inference",
            "precision": "fp16",
            "stack": "/".join([r["stack"].split("-")[0], r["compile"], r["layout"], r["precision"]]),
            "batch": r["batch"],
            "params": params,
            "kind": r["kind"],
            "rate_steps_per_second": float(r["samples_per_s"]) / batch,
        }
        if gmacs is not None:
            passes = 3.0 if training else 1.0
            cell["flops_per_step"] = 2e9 * max(gmacs, 0.005) * batch * passes
            cell["bytes_per_step"] = (4e6 * max(macts, 0.005) * batch + 2.0 * params) * passes
        yield cell


def zeus(paths):
    """Zeus: rates and watts under power limits; one step is one epoch, so only ratios inside a workload mean anything."""
    domains = {"shufflenetv2": "vision", "resnet50": "vision", "deepspeech2": "speech", "ncf": "recommendation", "bert": "language"}
    for path in paths:
        kind = re.search(r"summary_power_(\w+)\.csv", os.path.basename(path)).group(1)
        for r in rows(path):
            yield {
                "workload": f"{r['dataset']}-{r['network']}-b{r['batch_size']}-{r['optimizer']}",
                "family": f"{r['dataset']}-{r['network']}",
                "domain": next((d for n, d in domains.items() if r["network"].startswith(n)), None),
                "mode": "training",
                "batch": r["batch_size"],
                "kind": kind,
                "limit_watts": r["power_limit"],
                "rate_steps_per_second": 1.0 / float(r["time_per_epoch"]),
                "watts": r["average_power"],
            }


def llm(paths):
    """LLM serving: one step answers one batch of requests of as many tokens out as in. 16-bit weights and caches."""
    (path,) = paths
    for r in rows(path):
        batch, length = float(r["batch"]), float(r["length"])
        params, active = float(r["params_b"]) * 1e9, float(r["active_params_b"]) * 1e9
        layers = float(r["layers"])
        cache = layers * 2 * float(r["kv_heads"] or 8) * 128 * 2
        weights = min(params, active * max(1.0, min(batch, params / active)))
        yield {
            "workload": f"{r['workload']}-n{r['length']}-b{r['batch']}",
            "family": r["workload"],
            "domain": "language",
            "mode": "inference",
            "precision": "fp16",
            "stack": r["framework"],
            "batch": r["batch"],
            "params": params,
            "flops_per_step": 2 * active * 2 * length * batch,
            "bytes_per_step": (length + 1) * 2 * weights + 1.5 * length * length * cache * batch,
            "kernels_per_step": length * layers * 10,
            "kind": r["kind"],
            "gang": r["gpus"],
            "rate_steps_per_second": 1.0 / float(r["latency_s"]),
            "watts": r.get("watts_per_gpu"),
        }


def morphling(paths):
    """Gangs of one kind by plan and placement: one step is one global batch, which is fixed by workload."""
    (path,) = paths
    for r in rows(path):
        yield {
            "workload": f"{r['workload']}-{r['exec_plan']}",
            "family": r["workload"],
            "mode": "training",
            "kind": r["kind"],
            "gang": r["gpus"],
            "nodes": r["nodes"],
            "rate_steps_per_second": r["steps_per_s"],
        }


def miso(paths):
    """Slices of an A100 under MIG, with the counters of a run on the whole GPU."""
    (path,) = paths
    for r in rows(path):
        yield {
            "workload": f"{r['workload']}-b{r['batch']}",
            "family": r["workload"],
            "mode": "training",
            "batch": r["batch"],
            "memory_gib": (number(r["whole_gpu_memory_mib"]) or 0) / 1024 or None,
            "gpu_utilisation": part(r["whole_gpu_util_sm"], 100.0),
            "bandwidth_utilisation": part(r["whole_gpu_util_mem"], 100.0),
            "power_utilisation": part(r["whole_gpu_watts"], 400.0),
            "kind": f"a100-40gb-{r['slice']}",
            "rate_steps_per_second": r["steps_per_s"],
        }


def h200(paths):
    """Our own: twelve workloads on an H200, alone under four limits and in pairs, known only by the counters of a run alone."""
    (path,) = paths
    table = [r for r in rows(path) if r["workload"] != "(idle)"]
    alone = {r["workload"]: r for r in table if r["partner"] == "-" and not r["limit_watts"]}
    for r in table:
        counters = alone[r["workload"]]
        yield {
            "workload": r["workload"],
            "family": r["workload"].split("-")[0],
            "memory_gib": counters["memory_gib"] or None,
            "gpu_utilisation": part(counters["utilisation"]),
            "bandwidth_utilisation": part(counters["memory_utilisation"]),
            "power_utilisation": part(counters["watts"], 700.0),
            "kind": "h200",
            "limit_watts": r["limit_watts"],
            "partner": r["partner"] if r["partner"] != "-" else None,
            "rate_steps_per_second": r["steps_per_second"],
            "watts": r["watts"],
        }


TABLES = {f.__name__: f for f in (gavel, timm, zeus, llm, morphling, miso, h200)}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in TABLES:
        sys.exit(f"usage: convert.py {'|'.join(TABLES)} FILE... > cells.csv")
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    for cell in TABLES[sys.argv[1]](sys.argv[2:]):
        out.writerow({name: "" if value is None else value for name, value in cell.items()})


if __name__ == "__main__":
    main()
