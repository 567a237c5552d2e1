"""Stands in for workloads.py where no GPU is: sleeps at the rates that a table says. For rehearsals of dozen.py:

    python3 dozen.py ... --serve "--declare h200:1" --workloads rehearse.py

    python3 rehearse.py NAME [STEPS]

Programs of one run have one folder; whoever finds another in it goes at the pair's rate. A start takes REHEARSE_START seconds (8). Power limits are not played.
"""

import csv
import os
import pathlib
import signal
import sys
import time

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/data/h200-pairs-and-limits.csv"


def rates(name):
    """Steps a second of this workload, by its partner; nobody is "-"."""
    with open(TABLE) as file:
        rows = [row for row in csv.DictReader(file) if row["workload"] == name and not row["limit_watts"]]
    return {row["partner"]: float(row["steps_per_second"]) for row in rows if row["steps_per_second"]}


def beside(name):
    """Who else is at work in this folder."""
    for path in pathlib.Path().glob("*.at-work"):
        try:
            other, pid = path.stem, int(path.read_text() or 0)
            if other != name and pid and os.path.exists(f"/proc/{pid}"):
                return other
        except (FileNotFoundError, ValueError):
            continue
    return "-"


def tell(steps):
    path = os.environ.get("ARLES_STEPS_FILE")
    if path:
        pathlib.Path(path + ".new").write_text(str(int(steps)))
        os.rename(path + ".new", path)


def main():
    name, last = sys.argv[1], float(sys.argv[2]) if len(sys.argv) == 3 else float("inf")
    stopped, known = [], rates(name)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    saved = pathlib.Path(f"{os.environ.get('ARLES_JOB', name)}.steps")
    done = float(saved.read_text()) if last < float("inf") and saved.exists() else 0.0
    ready = time.monotonic() + float(os.environ.get("REHEARSE_START", "8"))
    while time.monotonic() < ready and not stopped:
        time.sleep(0.05)
    here = pathlib.Path(f"{name}.at-work")
    here.write_text(str(os.getpid()))
    looked = told = time.monotonic()
    while done < last and not stopped:
        time.sleep(0.05)
        now = time.monotonic()
        done = min(last, done + known[beside(name)] * (now - looked))
        looked = now
        if now - told > 0.2:
            told = now
            tell(done)
    here.unlink(missing_ok=True)
    tell(done)
    if stopped:
        saved.write_text(str(int(done)))
        sys.exit(85 if last < float("inf") else 143)


main()
