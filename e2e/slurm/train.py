#!/usr/bin/env python3
"""Stands in for training: counts steps at the rate of the kind of GPU that it is on, saves when it must make room, goes on from there.

    train.py NAME RATES.json WORKLOAD STEPS RESTART_SECONDS FOLDER

Steps follow the clock, so a busy machine does not make training slower. What happened is appended to FOLDER/NAME.log, a JSON object a line.
"""

import json
import os
import signal
import sys
import time

import arles

name, rates, workload, total, restart, folder = sys.argv[1:]
node = os.environ.get("NODE_NAME") or os.environ["SLURMD_NODENAME"]
kind = node.split("-")[0]
rate = json.load(open(rates))[workload][kind]
total, restart = float(total), float(restart)
checkpoint = os.path.join(folder, name + ".steps")


def log(**what):
    with open(os.path.join(folder, name + ".log"), "a") as file:
        file.write(json.dumps({"at": time.time(), "node": node, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""), **what}) + "\n")


def stop(*_):
    global stopping
    stopping = True


stopping = False
signal.signal(signal.SIGTERM, stop)
before = float(open(checkpoint).read()) if os.path.exists(checkpoint) else 0.0
log(event="start", steps=before, restart=os.environ.get("SLURM_RESTART_COUNT", "0"))
if before > 0 or os.environ.get("SLURM_RESTART_COUNT", "0") != "0":
    time.sleep(restart)
arles.resume(before)
began = time.monotonic()
done = before
while done < total and not stopping:
    time.sleep(min(0.1, max(0.001, (total - done) / rate)))
    done = min(total, before + (time.monotonic() - began) * rate)
    arles.report(done)
with open(checkpoint + ".new", "w") as file:
    file.write(repr(done))
os.replace(checkpoint + ".new", checkpoint)
arles.report(done, checkpointed=True)
log(event="end" if done >= total else "stop", steps=done)
if done < total and "NODE_NAME" in os.environ:
    # To Kubernetes an exit code of 0 says that the Job is done.
    sys.exit(85)
