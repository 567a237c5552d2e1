"""A daemon on this machine's GPUs, for the scripts of this folder."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

URL = "http://127.0.0.1:7197"


class Daemon:
    """`arles serve --engine local` on a state folder of its own, which knows these cells beforehand."""

    def __init__(self, arles, folder, words, cells):
        self.arles, self.folder = arles, pathlib.Path(folder)
        state = self.folder / "state"
        state.mkdir(parents=True)
        if cells:
            (self.folder / "cells.csv").write_text(cells)
            self.run("catalog", "--catalog", str(state / "catalog.db"), "import", str(self.folder / "cells.csv"))
        self.log = open(self.folder / "serve.log", "w")
        own = ["serve", "--open-loopback", "--listen", URL.removeprefix("http://"), "--engine", "local", "--state", str(state)]
        self.process = subprocess.Popen([arles, *own, *words], stderr=self.log, stdout=self.log)
        for _ in range(300):
            if self.run("nodes", check=False) is not None:
                return
            time.sleep(0.1)
        sys.exit(f"the daemon does not answer: {(self.folder / 'serve.log').read_text()}")

    def run(self, *words, check=True):
        said = subprocess.run([self.arles, *words], capture_output=True, text=True, env={**os.environ, "ARLES_URL": URL})
        if said.returncode != 0 and check:
            sys.exit(f"arles {' '.join(words)}: {said.stderr}")
        return said.stdout if said.returncode == 0 else None

    def json(self, *words):
        return json.loads(self.run(*words, "-o", "json"))

    def until_idle(self, most_seconds, every=0.5):
        """Looks until no job is left; yields what is there at each look."""
        began = time.time()
        while time.time() - began < most_seconds:
            live = self.json("queue")
            if not live:
                return
            yield live
            time.sleep(every)
        print(f"still busy after {most_seconds} s:\n{self.run('queue')}", flush=True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


def counter(arles):
    """The first card's own counter of energy, in joules; none where there is no card."""
    said = subprocess.run([arles, "gpus", "-o", "json"], capture_output=True, text=True)
    return json.loads(said.stdout)[0]["reading"]["joules"] if said.returncode == 0 else None
