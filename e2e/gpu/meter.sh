#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: finds the card, meters two jobs one after another through a daemon, and holds the energy that
# the daemon charged beside the card's own counter. Prints a table. Needs: arles in PATH or $ARLES, PyTorch in python3.
set -euo pipefail
arles=${ARLES:-arles}
folder=$(mktemp -d)
cd "$folder"
export ARLES_URL=http://127.0.0.1:7199
hook=${ARLES_PYTHON:-}
cat > train.py <<'PY'
import sys, time, torch
sys.path.insert(0, sys.argv[3]) if len(sys.argv) > 3 else None
size, seconds = int(sys.argv[1]), float(sys.argv[2])
a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
end, steps = time.time() + seconds, 0
while time.time() < end:
    for _ in range(10):
        c = a @ b
    torch.cuda.synchronize()
    steps += 1
print("steps", steps)
PY
counter() { nvidia-smi --query-gpu=total_energy_consumption --format=csv,noheader,nounits 2>/dev/null | grep -E '^[0-9.]+$' || "$arles" gpus -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["reading"]["joules"]*1e3)'; }
echo "== arles gpus (idle)"; "$arles" gpus
"$arles" serve --open-loopback --listen 127.0.0.1:7199 --engine local --tenants lab=1 --round 2s --survey 1s --state state 2> serve.log &
daemon=$!
trap 'kill $daemon 2>/dev/null || true; wait $daemon 2>/dev/null || true; cat serve.log' EXIT
for _ in $(seq 50); do "$arles" nodes >/dev/null 2>&1 && break; sleep 0.2; done
"$arles" nodes
before=$(counter); "$arles" energy -o json > energy-before.json
"$arles" submit --tenant lab --name large -- python3 "$folder/train.py" 8192 20
"$arles" submit --tenant lab --name small -- python3 "$folder/train.py" 1024 20
sleep 12; echo "== arles gpus (busy)"; "$arles" gpus
for _ in $(seq 120); do [ "$("$arles" queue -o json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(len(d["jobs"] if isinstance(d,dict) else d))')" = 0 ] && break; sleep 0.5; done
sleep 3
after=$(counter); "$arles" energy -o json > energy-after.json
echo "== arles energy"; "$arles" energy
echo "== counter: $(python3 -c "print(($after-$before)/1e3)") J between the two looks"
python3 - <<'PY'
import json
print("daemon before:", json.dumps(json.load(open("energy-before.json")))[:600])
print("daemon after: ", json.dumps(json.load(open("energy-after.json")))[:1200])
PY
