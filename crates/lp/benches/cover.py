"""Solves one integer program with HiGHS.

Reads from stdin, as JSON, {"limit": seconds, "gap": relative, "lp": 0 or 1, "c": [...], "whole": [0 or 1, ...],
"right": [[lower, upper], ...], "starts": [...], "at": [...], "a": [...]} (rows, compressed) and writes
{"seconds", "cost", "bound", "lp"}: processor seconds of solving, without reading. Called by `cargo bench -p arles-lp --bench cover`;
needs `pip install highspy`.
"""

import json
import sys
import time

import highspy
import numpy as np

q = json.load(sys.stdin)
n, m = len(q["c"]), len(q["right"])
free = 1e30
model = highspy.HighsLp()
model.num_col_, model.num_row_ = n, m
model.col_cost_ = np.array(q["c"])
model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, free)
model.row_lower_ = np.array([-free if r[0] is None else r[0] for r in q["right"]])
model.row_upper_ = np.array([free if r[1] is None else r[1] for r in q["right"]])
model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
model.a_matrix_.start_ = np.array(q["starts"])
model.a_matrix_.index_ = np.array(q["at"])
model.a_matrix_.value_ = np.array(q["a"])
h = highspy.Highs()
h.setOptionValue("output_flag", False)
h.setOptionValue("threads", 1)
h.setOptionValue("time_limit", float(q["limit"]))
h.setOptionValue("mip_rel_gap", q["gap"])
lp = float("nan")
if q["lp"]:
    h.passModel(model)
    h.run()
    lp = h.getInfo().objective_function_value
kinds = [highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger]
model.integrality_ = [kinds[w] for w in q["whole"]]
h.passModel(model)
start = time.process_time()
h.run()
seconds = time.process_time() - start
info = h.getInfo()
cost = info.objective_function_value if info.primal_solution_status == 2 else float("inf")
print(json.dumps({"seconds": seconds, "cost": cost, "bound": info.mip_dual_bound, "lp": lp}))
