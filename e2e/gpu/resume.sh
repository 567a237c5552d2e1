#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: a training job is preempted twice and resumed, and no step is lost or done twice. It saves model, optimiser and step when it
# is told to stop; every step that it did is in steps.log. Prints what it sees. Needs: arles in PATH or $ARLES, PyTorch in $PYTHON.
set -euo pipefail
arles=${ARLES:-arles}
python=${PYTHON:-python3}
folder=$(mktemp -d)
cd "$folder"
export ARLES_URL=http://127.0.0.1:7196
cat > train.py <<'PY'
import os, signal, sys, torch
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1)).to("cuda")
optimiser, step = torch.optim.AdamW(model.parameters(), lr=1e-3), 0
if os.path.exists("saved.pt"):
    saved = torch.load("saved.pt")
    model.load_state_dict(saved["model"]); optimiser.load_state_dict(saved["optimiser"]); step = saved["step"]
with open("steps.log", "a") as log:
    while step < int(sys.argv[1]) and not stopped:
        generator = torch.Generator("cuda").manual_seed(step)
        x = torch.randn(8192, 2048, device="cuda", generator=generator)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimiser.zero_grad(); loss.backward(); optimiser.step()
        log.write(f"{step} {loss.item():.6e}\n")
        step += 1
        if step % 20 == 0:
            with open(os.environ["ARLES_STEPS_FILE"], "w") as f: f.write(str(step))
if stopped:
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, "saved.tmp")
    os.rename("saved.tmp", "saved.pt")
    sys.exit(85)
PY
"$arles" serve --open-loopback --listen 127.0.0.1:7196 --engine local ${SERVE:-} --policy fifo --tenants lab:1 --round 2s --survey 1s --state state 2> serve.log &
daemon=$!
trap '"$arles" cancel "${job:-1}" >/dev/null 2>&1; sleep 1; kill $daemon 2>/dev/null; wait $daemon 2>/dev/null || true' EXIT
for _ in $(seq 100); do "$arles" nodes > /dev/null 2>&1 && break; sleep 0.1; done
steps=${STEPS:-8000}
job=$("$arles" submit --quiet --tenant lab --name train --steps "$steps" -- "$python" "$folder/train.py" "$steps")
for _ in 1 2; do
  sleep "${RUN_SECONDS:-9}"
  "$arles" hold "$job"; sleep 5; "$arles" queue; "$arles" release "$job"
done
for _ in $(seq 200); do [ "$("$arles" queue -o csv | wc -l)" -le 1 ] && break; sleep 0.5; done
"$arles" show "$job" | grep -E "state|starts|restarts|exit" || true
awk '{ print $1 }' steps.log | sort -n | uniq -c | awk '$1 != 1 { twice++ } END { print NR " steps, " twice + 0 " of them done twice" }'
tail -1 steps.log
