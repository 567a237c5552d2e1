"""A training loop of nothing but Python, with checkpoint and resume: what arles needs of a job, in one screen.

    python3 no_framework.py --steps 200 --checkpoint state.json

Outside arles it just runs. Under arles it reports its steps; asked to make room it saves and ends with exit code 85; started again it goes on.
"""

import argparse
import json
import os
import time

import arles


def load(path):
    """The state of the last checkpoint, or a new one."""
    if os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    return {"step": 0, "weight": 10.0}


def save(path, state):
    """Whole or not at all: a job that is killed while it saves must find the checkpoint before."""
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", default="state.json")
    parser.add_argument("--step-seconds", type=float, default=0.01)
    parser.add_argument("--every", type=float, default=5.0)
    options = parser.parse_args()

    state = load(options.checkpoint)
    arles.resume(state["step"])
    todo = range(state["step"], options.steps)
    for step in arles.track(todo, every=options.every, on_stop=lambda: save(options.checkpoint, state), sigterm=True):
        state["weight"] -= 0.1 * 2.0 * state["weight"]  # one step of descent on weight²
        time.sleep(options.step_seconds)
        state["step"] = step + 1
    save(options.checkpoint, state)
    print(f"done: {state['step']} steps, weight {state['weight']:.3g}")


if __name__ == "__main__":
    main()
