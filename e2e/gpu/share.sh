#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, as root: two jobs on one card by MPS with the energy of each, limits of memory and CPUs by control groups, a
# daemon that is killed, and what the agent costs. Prints what it sees. Needs: arles in PATH or $ARLES, PyTorch in python3.
set -uo pipefail
arles=${ARLES:-arles}
folder=$(mktemp -d)
cd "$folder"
export ARLES_URL=http://127.0.0.1:7198
cat > train.py <<'PY'
import os, sys, time, torch
size, seconds = int(sys.argv[1]), float(sys.argv[2])
a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
end, steps, told = time.time() + seconds, 0, 0
while time.time() < end:
    for _ in range(10):
        c = a @ b
    torch.cuda.synchronize()
    steps += 1
    if time.time() - told > 0.5:
        told = time.time()
        with open(os.environ["ARLES_STEPS_FILE"] + ".new", "w") as f:
            f.write(str(steps))
        os.rename(os.environ["ARLES_STEPS_FILE"] + ".new", os.environ["ARLES_STEPS_FILE"])
print("steps", steps, "pipes", os.environ.get("CUDA_MPS_PIPE_DIRECTORY"), flush=True)
PY
serve() {
  # A group of its own, as systemd gives it with Delegate= and DelegateSubgroup=arles-daemon.
  ( mkdir -p /sys/fs/cgroup/arles-e2e/arles-daemon && echo $BASHPID > /sys/fs/cgroup/arles-e2e/arles-daemon/cgroup.procs
    exec "$arles" serve --open-loopback --listen 127.0.0.1:7198 --engine local --sharing mps --policy "${POLICY:-gogh}" --tenants lab:1 --round 2s --survey 1s --state state 2>> serve.log ) &
  daemon=$!
  for _ in $(seq 100); do "$arles" nodes > /dev/null 2>&1 && break; sleep 0.1; done
}
finish() {
  kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null
  for group in $(find /sys/fs/cgroup/arles-e2e -depth -type d 2>/dev/null); do rmdir "$group" 2>/dev/null; done
}
trap finish EXIT
counter() { "$arles" gpus -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["reading"]["joules"])'; }
idle() { for _ in $(seq 240); do [ "$("$arles" queue -o csv | wc -l)" -le 1 ] && return; sleep 0.5; done; echo "still busy"; "$arles" queue; }
serve
grep -i "control groups" serve.log
echo "== limits"
"$arles" submit --tenant lab --name greedy --memory 1G --cpus 2 --retries 0 -- python3 -c 'x = bytearray(3 << 30); print(len(x))'
"$arles" submit --tenant lab --name limits --memory 1G --cpus 2 --retries 0 -- sh -c 'cd /sys/fs/cgroup/$(cut -d: -f3 /proc/self/cgroup); echo "$PWD"; cat memory.max cpu.max'
idle
"$arles" show greedy | grep -E "state|reason|exit"; "$arles" logs limits
echo "== each alone, then both"
"$arles" submit --tenant lab --name large --workload large -- python3 "$folder/train.py" 6144 12; idle
"$arles" submit --tenant lab --name small --workload small -- python3 "$folder/train.py" 768 12; idle
before=$(counter)
"$arles" submit --tenant lab --name large2 --workload large -- python3 "$folder/train.py" 6144 30
"$arles" submit --tenant lab --name small2 --workload small -- python3 "$folder/train.py" 768 30
sleep 14; "$arles" queue; "$arles" gpus; pgrep -fa mps
echo "== killed while they run"
kill -9 "$daemon"; wait "$daemon" 2>/dev/null; sleep 1; serve
idle; sleep 2
after=$(counter)
"$arles" logs large2; "$arles" logs small2
"$arles" energy --by job
echo "counter: $(python3 -c "print($after - $before)") J for the last two; power alone, above idle:"; cat state/gangs/alone.json; echo
finish; sleep 1
echo "== after the daemon ended: $(pgrep -fc mps-control) control daemons"
echo "== agent, 20 s at 10 Hz"
time "$arles" agent --listen 127.0.0.1:9471 --every 100ms --for 20s
echo "== log of the daemon"; tail -20 serve.log
