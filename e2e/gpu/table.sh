#!/bin/sh
# Rates and watts of a dozen workloads on the first GPU: each alone, each under power limits, every pair sharing the card by MPS. As root, with PyTorch:
#
#     e2e/gpu/table.sh target/release/arles OUT [python]
#
# Writes OUT/table.csv and OUT/catalog.sqlite, and says what the pairs and limits in it are worth (matching.py). Takes about nine minutes. Limits are put back at the end, and MPS is stopped, whatever happens.
set -eu
arles=$1
out=$2
python=${3:-python3}
here=$(dirname "$0")
seconds=${SECONDS_EACH:-2800ms}
limits=${LIMITS:-500,400,300,250}

scratch=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY="$scratch/mps" CUDA_MPS_LOG_DIRECTORY="$scratch/mps-log"
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY" "$out"
# arles puts the limit back by itself; this is for the case that it was killed.
limit=$(nvidia-smi -i 0 --query-gpu=power.limit --format=csv,noheader,nounits)
finish() {
    echo quit | nvidia-cuda-mps-control 2>/dev/null || true
    nvidia-smi -i 0 -pl "$limit" >/dev/null 2>&1 || true
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM

nvidia-cuda-mps-control -d
for name in ${WORKLOADS:-$("$python" "$here/workloads.py" --list)}; do
    echo "$name = \"$python $here/workloads.py $name\""
done >"$scratch/workloads.toml"

"$arles" profile --workloads "$scratch/workloads.toml" --pairs --limits "$limits" --seconds "$seconds" --settle 800ms --warmup 3s \
    --catalog "$out/catalog.sqlite" -o csv >"$out/table.csv"
"$python" "$here/matching.py" "$out/table.csv"
nvidia-smi -i 0 --query-gpu=name,driver_version,power.limit --format=csv,noheader
