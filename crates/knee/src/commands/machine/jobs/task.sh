#!/bin/sh
# usage: task DIR OFFSET
# A task of the array jobs of `knee jobs run --on slurm`. Line OFFSET + SLURM_ARRAY_TASK_ID of DIR/tasks is the
# number of its job.
job=$(sed -n "$((SLURM_ARRAY_TASK_ID + $2))p" "$1/tasks")
exec sh "$1/job" "$job" "$1"
