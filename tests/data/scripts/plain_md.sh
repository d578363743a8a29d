#!/bin/bash
#SBATCH -n 64
#SBATCH --gpus=4
module load gromacs/2024
gmx grompp -f md.mdp -c conf.gro -o run.tpr
for i in {1..3}; do
  srun gmx_mpi mdrun -deffnm run -nsteps $((i * 50000)) -cpi run.cpt
done
bash -c 'echo "finished pretrain_gpt.py --num-layers 4"'
