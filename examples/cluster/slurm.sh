#!/usr/bin/env bash
# One run of Poise on several nodes under Slurm; the words after the script are those of `poise`:
#
#   sbatch --nodes 8 slurm.sh reproduce imagenet-c --method FCL --seeds 1 --out /shared/runs
#
# --out and POISE_DATA are folders that all nodes share. A worker that dies is started again, with all the others, from
# the last checkpoint; a node that dies ends the job, which Slurm puts back into the queue: it goes on from there, too.
# 16 cores for each GPU decode pictures: fewer do for small ones.
#SBATCH --job-name=poise
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=128
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=poise-%j.log
set -euo pipefail

export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # or workers that are started again look for those that died
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 torchrun \
    --nnodes "$SLURM_JOB_NUM_NODES" \
    --nproc-per-node "$SLURM_GPUS_ON_NODE" \
    --max-restarts 3 \
    --rdzv-backend c10d \
    --rdzv-endpoint "$first:29500" \
    --rdzv-id "$SLURM_JOB_ID" \
    -m poise "$@"
