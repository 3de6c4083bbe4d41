#!/usr/bin/env bash

#SBATCH -J dask-worker
#SBATCH -p normal
#SBATCH -A lab
#SBATCH -n 1
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH -t 02:00:00
#SBATCH --exclusive=user
source ~/mdf/bin/activate
PYTHON -m distributed.cli.dask_worker SCHEDULER --name dummy-name --nthreads 1 --memory-limit 3.73GiB --nanny --death-timeout 60
