"""Runs Gavel's own simulator on one trace and prints "jct SECONDS cpu SECONDS" on its last line.

drive.py FOLDER TRACE POLICY RATES V100:P100:K80 SECONDS_BETWEEN_SOLVES [paid]

With "paid" its round mechanism serves first whoever is owed most of what was granted since the job came, where it otherwise goes by what was
received since the last solve and forgets the rest: gangs that do not fit at the end of a round then get what they were granted.

What the simulator imports for real clusters and never calls is stood in for, so that cvxpy and ecos are all it needs.
"""
import sys
import time
import types


class Absent(types.ModuleType):
    def __getattr__(self, name):
        return Absent(name)

    def __call__(self, *args, **kwargs):
        return Absent("called")


ABSENT = ["func_timeout", "glog", "grpc", "gurobipy", "matrix_completion", "numa", "runtime", "runtime.rpc"]
ABSENT += ["runtime.rpc.scheduler_client", "runtime.rpc.scheduler_server"]
for name in ABSENT:
    sys.modules[name] = Absent(name)

folder, trace, policy, rates, cluster, between, *paid = sys.argv[1:]
ROUND_SECONDS = 360
sys.path.insert(0, folder + "/scheduler")
import scheduler  # noqa: E402
import utils  # noqa: E402



def pay(simulation):
    """Ranks jobs by the seconds on a kind that they are owed at the end of the next round."""
    update = simulation._update_priorities

    def update_and_rank():
        update()
        elapsed = simulation.get_current_timestamp() - simulation._last_reset_time
        for kind, ranks in simulation._priorities.items():
            for job in ranks:
                granted = simulation._allocation[job][kind] if job in simulation._allocation else 0.0
                # The simulator begins to count at half a round.
                received = simulation._job_time_so_far[job].get(kind, ROUND_SECONDS / 2) - ROUND_SECONDS / 2
                before = simulation._deficits[kind].get(job, 0.0)
                ranks[job] = before + granted * (elapsed + ROUND_SECONDS) - received

    simulation._update_priorities = update_and_rank


begin = time.process_time()
jobs, arrivals = utils.parse_trace(trace)
simulation = scheduler.Scheduler(
    utils.get_policy(policy, solver="ECOS", seed=0),
    throughputs_file=rates,
    simulate=True,
    seed=0,
    time_per_iteration=ROUND_SECONDS,
    minimum_time_between_allocation_resets=float(between),
)
if paid:
    pay(simulation)
counts = dict(zip(["v100", "p100", "k80"], map(int, cluster.split(":"))))
simulation.simulate(counts, arrivals, jobs, num_gpus_per_server={kind: 4 for kind in counts})
print("jct", simulation.get_average_jct(None), "cpu", time.process_time() - begin)
