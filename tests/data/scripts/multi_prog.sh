#!/bin/bash
#SBATCH --ntasks=3 --gpus=2
cat > roles.conf <<END
0 python driver.py --workers 2
1-2 python worker.py --rank %t
END
srun -l --multi-prog roles.conf
