"""Runs Gavel's own simulator on one trace and prints "jct SECONDS cpu SECONDS" on its last line.

drive.py FOLDER TRACE POLICY RATES V100:P100:K80 SECONDS_BETWEEN_SOLVES

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

folder, trace, policy, rates, cluster, between = sys.argv[1:]
sys.path.insert(0, folder + "/scheduler")
import scheduler  # noqa: E402
import utils  # noqa: E402

begin = time.process_time()
jobs, arrivals = utils.parse_trace(trace)
simulation = scheduler.Scheduler(
    utils.get_policy(policy, solver="ECOS", seed=0),
    throughputs_file=rates,
    simulate=True,
    seed=0,
    time_per_iteration=360,
    minimum_time_between_allocation_resets=float(between),
)
counts = dict(zip(["v100", "p100", "k80"], map(int, cluster.split(":"))))
simulation.simulate(counts, arrivals, jobs, num_gpus_per_server={kind: 4 for kind in counts})
print("jct", simulation.get_average_jct(None), "cpu", time.process_time() - begin)
