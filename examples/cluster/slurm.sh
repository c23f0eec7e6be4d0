#!/usr/bin/env bash
# Two nodes with four GPUs each: eight replicas of one voice. Submit with: sbatch examples/cluster/slurm.sh
# srun tells each task its place; the tasks of a node take its GPUs in turn.
#SBATCH --job-name=voice
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue

srun --kill-on-bad-exit=1 --distribution=block \
  myxtts train --train-data "${DATA:-corpus}" --checkpoint-dir "${RUN:-runs/voice}" --model-size big
