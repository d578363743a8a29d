#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ways in which scripts start a program: p4d finds it, and its arguments.
. "${0%/*}/lib.sh"

unset LAUNCHER PYTHON CMD FLAGS IMG
program='pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 4'

# started COMMAND [LINE]...: a script of these lines; the last one starts the program
started() {
	printf '%s\n' '#!/bin/bash' "$@" >job.sh
	exits 0 p4d read job.sh
	prints "pretrain_gpt" "tp                   8 " "layers               4 "
	case $out in *"  arguments  "* | *"p4d does not know torch"*) fail "arguments are not known: $*" ;; esac
}

for launcher in "" "python" "python3.11 -u" "srun -N2 -n 16 --gpus-per-node 8 -l python -u" "srun --mpi=pmix -u python" \
	"torchrun --nproc_per_node 8" "torchrun --standalone --nproc-per-node=8 --" "python -m torch.distributed.run --nnodes 2" \
	"python3 -m torch.distributed.launch --use_env --nproc_per_node=8" "accelerate launch --multi_gpu --num_processes 8" \
	"deepspeed --num_gpus 8 --hostfile h" "mpirun -np 16 -mca btl ^openib -x PATH -x NCCL_DEBUG=INFO --bind-to none python" \
	"mpirun -n 8 -N 4 -hostfile h -bind-to none -map-by slot -allow-run-as-root python" \
	"mpiexec -n 4 -ppn 4 -genv A B -envall python" "mpirun --allow-run-as-root --mca pml ob1 -H a:8,b:8 python" \
	"apptainer exec --nv --bind /data:/data img.sif python" "singularity exec --nv -B /a:/b \$IMG torchrun --nproc_per_node=8" \
	"apptainer exec \$FLAGS img.sif python" "docker run --gpus all --rm -v /a:/b -it image:latest python" \
	"srun --container-image=/i.sqsh --container-mounts=/a:/b --no-container-mount-home python" \
	"podman-hpc run --rm --gpu --nccl -v /a:/b image python" "shifter --image=nvcr.io/nvidia/pytorch:25.01 python" \
	"nsys profile -o out -t cuda,nvtx python" "numactl --cpunodebind=0 --membind=0 python" "env -u B A=1 python" \
	"A=1 B='x y' python" "time python" "nohup python" "exec python" "sudo -E python" "timeout 10h python" "timeout -k 5 10h python" \
	"taskset -c 0-7 python" "uv run --active python" "poetry run torchrun --nproc_per_node=8" "conda run -n env python" \
	"\$LAUNCHER" "srun \$LAUNCHER torchrun --nproc_per_node 8" "\$PYTHON" "\$LAUNCHER --nnodes 2 --x" "srun \$FLAGS python" \
	"torchrun \$FLAGS" "\"\$PYTHON\" -u" "\${CMD} python -u" "flux run -N2 -n16 python" "jsrun -n 2 -a 1 -g 8 python" \
	"ibrun -n 16 python" "ssh -q -o A=b host python" "ray job submit --address=http://a:1 --no-wait -- python" \
	"python -m accelerate.commands.launch --num_processes 8" "srun --cpu-bind=none bash -c 'exec \"\$@\"' _ python"; do
	started "$launcher $program"
done
# commands that p4d does not know start a launcher as well; the value of an option is none
for launcher in "wrapper torchrun --nproc_per_node 8" "srun wrapper -v run deepspeed --num_gpus 8" "hatch -e cuda run torchrun --nproc_per_node 8" \
	"hatch run torchrun --nproc_per_node 8" "pdm run python" "rye run python" "wrapper accelerate launch --num_processes 8"; do
	started "$launcher $program"
done
for command in "pip install torchrun deepspeed" "wrapper --launcher torchrun $program" "wrapper torchrun" "wrapper accelerate $program"; do
	printf '%s\n' '#!/bin/bash' "$command" >job.sh
	exits 0 p4d read job.sh
	case $out in *pretrain_gpt.py*started*) fail "$command starts a program: $out" ;; esac
done
# variables that a launcher sets for its command, which the script's own values do not replace
inner='pretrain_gpt.py --tensor-model-parallel-size ${T:-3} --num-layers ${L:-3}'
for launcher in "srun --export=ALL,T=8,L=4" "srun -n1 --export ALL,T=8,L=4" "env T=8 L=4" "env -u PATH T=8 L=4" "srun env T=8 L=4" \
	"apptainer exec --env T=8,L=4 i.sif" "singularity exec --env T=8 --env=L=4 i.sif" "docker run --rm -e T=8 --env L=4 i:1" \
	"podman run --env=T=8 -e L=4 i" "enroot start -e T=8 --env L=4 i" "mpirun -n 1 -x PATH -x T=8 -x L=4" "sudo T=8 L=4" \
	"T=1 srun --export=ALL,T=8,L=4" "srun --export=ALL,T=8 env L=4"; do
	started "$launcher bash -c '$inner'"
	started "cat >in.sh <<'E'" "$inner" E "$launcher bash in.sh"
done
started 'export APPTAINERENV_T=8 SINGULARITYENV_L=4' "apptainer exec i.sif bash -c '$inner'"
started 'T=8' 'export L=4' "srun --export=ALL,T=\$T bash -c '$inner'"
printf '%s\n' '#!/bin/bash' "srun --export=ALL,T=8 bash -c 'true'" "srun --export=ALL,L,=5,X bash -c '$inner'" >job.sh
exits 0 p4d read job.sh
prints "tp                   3 " "layers               3 "
# files of variables; a single variable counts more, and a file that p4d cannot read may set any variable
printf '# sizes\nT=8\nL=4\nNOT A NAME=1\n' >run.env
for launcher in "docker run --rm --env-file run.env i" "podman run --env-file=run.env i" "apptainer exec --nv --env-file run.env i.sif" \
	"docker run -e L=4 --env-file both.env i"; do
	started 'sed s/L=4/L=1/ run.env >both.env' 'T=1' "$launcher bash -c '$inner'"
done
printf '%s\n' 'export T=8' 'export L=4' >bash.env # apptainer runs the file
started 'T=1' "apptainer exec --env-file bash.env i.sif bash -c '$inner'"
printf '%s\n' '#!/bin/bash' "docker run --env-file gone.env -e L=3 i bash -c '$inner'" >job.sh
exits 0 p4d read job.sh
prints "tp                   \$T may be set by gone.env, which p4d cannot read" "layers               3 " "gone.env cannot be read"
# launchers that do not pass on what the script exports, except what their options name
for launcher in "docker run i" "podman run --rm i" "ssh host" "pdsh -w h[1-2]" "srun --export=NONE" "srun --export=X=1" "env -i PATH=/bin" \
	"apptainer exec --nv --cleanenv i.sif" "singularity exec -e i.sif" "singularity run -C --nv i.sif"; do
	printf '%s\n' '#!/bin/bash' 'export T=8 L=4' "$launcher \\" "bash -c '$inner'" >job.sh
	case $launcher in ssh* | pdsh*) printf '%s\n' '#!/bin/bash' 'export T=8 L=4' "$launcher '$inner'" >job.sh ;; esac
	exits 0 p4d read job.sh
	prints "tp                   \$T, which ${launcher%% *}" "layers               \$L, which ${launcher%% *}"
done
for launcher in "docker run -e T -e L=4 i" "podman run --env T --env=L i" "srun --export=T,L" "srun --export=L=4,T,X=1" "srun --export=ALL,L=4" "apptainer exec i.sif" \
	"apptainer exec --cleanenv --env T=8,L=4 i.sif" "env -i T=8 L=4"; do
	started 'export T=8 L=4' "$launcher bash -c '$inner'"
done
started 'export T=8 L=4' "ssh host \"T=\$T L=\$L; $(printf %s "$inner" | sed 's/\$/\\$/g')\""
# a switch that p4d does not know does not take the launcher's next word
for launcher in "torchrun --virtual-local-rank" "torchrun --no-such-switch" "deepspeed --no_such_switch" "accelerate launch --no_such_switch" \
	"mpirun --no-such-switch -x PATH python" "srun --no-such-switch torchrun --nproc_per_node 4" "srun --no-such-option value torchrun --nproc_per_node 4"; do
	started "$launcher $program"
done
started "torchrun --virtual-local-rank --nproc_per_node 4 $program"
prints "gpus-per-node        4 "
started "deepspeed --no_such_switch --num_gpus 4 $program"
prints "gpus-per-node        4 "
started "srun --no-such-switch torchrun --nproc_per_node 4 $program"
prints "gpus-per-node        4 "
started "python -m pretrain_gpt --tensor-model-parallel-size 8 --num-layers 4"
started "uv run --isolated --extra fsdp -m pretrain_gpt --tensor-model-parallel-size 8 --num-layers 4"
started "srun bash -c \"torchrun --nproc_per_node 8 $program\""
started "srun bash -ceo pipefail '$program'"
started "bash +x -O extglob -c '$program'"
started "srun bash -euo pipefail -c '$program'" "srun bash -eox pipefail -c '$program'" "srun bash -c -e '$program'" "srun bash -lc 'cd /x && $program'"
started "srun bash <<EOF" "torchrun $program" EOF
started "srun bash -s 8 <<'EOF'" 'pretrain_gpt.py --tensor-model-parallel-size $1 --num-layers 4' EOF
started "bash <(echo '$program')"
started "echo '$program' | bash" "printf '%s\n' '$program' | srun sh"
started "cat > run.sh <<'EOF'" "$program \"\$@\"" EOF "srun bash -x run.sh --seq-length 4096"
started 'launch() { srun "$@"; }' "launch torchrun --nproc_per_node 8 $program"
started 'CMD="torchrun --nproc_per_node 8"' "srun \$CMD $program"
started "read -r -d '' CMD <<EOF" "$program" EOF "$program"
# names of hosts are no options
started 'ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)' "$program --master-addr \$ADDR --log \$(date +%F) \$SLURM_JOB_ID"
# Slurm's variables, as sbatch of 22.05 sets them for these options
of_slurm() # of_slurm OPTIONS WORDS EXPECTED
{
	printf '%s\n' '#!/bin/bash' "#SBATCH $1" "pretrain_gpt.py --num-layers $2" >job.sh
	exits 0 p4d read job.sh
	prints "layers               $3 "
}
of_slurm "-N1 --gres=gpu:8" '$SLURM_GPUS_ON_NODE' 8
of_slurm "-N1 --gres=gpu:8" '${SLURM_GPUS_PER_NODE:-3}' 3
of_slurm "-N2 --gpus-per-node=8" '${SLURM_GPUS_PER_NODE:-3}' 8
of_slurm "-N2 --gpus-per-node=h100:8" '${SLURM_GPUS_PER_NODE##*:}' 8
of_slurm "-N1 --gres=gpu:8 --gpus-per-node=8" '${SLURM_GPUS_PER_NODE:-3}' 8
of_slurm "-N2 --gpus-per-node=h100:8" '$((SLURM_GPUS_ON_NODE * SLURM_NNODES))' 16
of_slurm "-N1 --gpus=h100:4" '${SLURM_GPUS#h100:}' 4
of_slurm "-N1 --gpus=4" '$SLURM_GPUS_ON_NODE' 4
of_slurm "-N1 -n8 --gpus-per-task=1" '${SLURM_GPUS_PER_TASK}$SLURM_NTASKS' 18
of_slurm "-N2 --ntasks-per-node=4 --gres=gpu:4" '$SLURM_NTASKS' 8
# unknown standard input starts no program
printf '%s\n' 'generate | bash' 'srun bash -s x' >job.sh
exits 0 p4d read job.sh
prints "p4d found no training program"
# the file of `accelerate config` counts if no other configuration is named; the command line overrides it
mkdir -p hf/accelerate
printf '%s\n' 'distributed_type: FSDP' 'mixed_precision: bf16' 'num_machines: 1' 'num_processes: 4' 'fsdp_config:' \
	'  fsdp_version: 2' '  activation_checkpointing: true' '  fsdp_offload_params: true' >hf/accelerate/default_config.yaml
accelerated() # accelerated COMMAND: starts a training with that configuration at hand
{
	printf '%s\n' '#!/bin/bash' "export HF_HOME=$PWD/hf" "$1 --model_name_or_path gpt2 --per_device_train_batch_size 1" >job.sh
	exits 0 p4d read job.sh
}
accelerated "accelerate launch run_clm.py"
prints "framework            fsdp           $PWD/hf/accelerate/default_config.yaml:1" \
	"precision            bf16           $PWD/hf/accelerate/default_config.yaml:2" \
	"gpus-per-node        4              $PWD/hf/accelerate/default_config.yaml:4" \
	"recompute            full           $PWD/hf/accelerate/default_config.yaml:7" \
	"offload              params         $PWD/hf/accelerate/default_config.yaml:8"
accelerated "accelerate launch --num_processes=2 --multi_gpu run_clm.py"
prints "gpus-per-node        2              job.sh:3" "framework            ddp            job.sh:3"
accelerated "trl sft --num_processes 2"
prints "gpus-per-node        2              job.sh:3" "framework            fsdp           $PWD/hf/accelerate/default_config.yaml:1"
printf '%s\n' 'mixed_precision: fp16' >other.yaml
for command in "accelerate launch --config_file other.yaml run_clm.py" "trl sft --config_file=other.yaml"; do
	accelerated "$command"
	prints "precision            fp16           other.yaml:1"
	case $out in *default_config*) fail "$command reads two configurations: $out" ;; esac
done
for command in "accelerate launch --cpu run_clm.py" "torchrun run_clm.py" "python sft.py"; do
	accelerated "$command"
	case $out in *default_config*) fail "$command reads accelerate's configuration: $out" ;; esac
done
# bash sets and exports PWD by itself
printf '%s\n' '#!/bin/bash' "bash -c 'accelerate launch --config_file other.yaml run_clm.py --do_train --model_name_or_path gpt2'" >job.sh
out=$(env -i PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" p4d read job.sh)
prints "precision            fp16           other.yaml:1"
# sed is supported as far as its patterns have no repeated groups; other results are unknown
edited() # edited SED EXPECTED: what becomes of "layers=4 #x"
{
	printf '%s\n' '#!/bin/bash' 'echo "layers=4 #x" >f.txt' "$1" 'pretrain_gpt.py --seq-length 64 --num-layers $(cut -d= -f2 f.txt)' >job.sh
	exits 0 p4d read job.sh
	prints "$2"
}
edited "sed -i 's/ #.*\$//' f.txt" "layers               4 "
edited "sed -i.bak -e 's/4 *#x/8/' -e 's|8|1/6|; s,/,,' f.txt" "layers               16 "
edited "sed -E -i 's/[0-9]+ #x/12/g' f.txt" "layers               12 "
edited "sed -i 's/4.*/8/;/none/d' f.txt" "layers               8 "
edited "N=12; sed \"s/=.*/=\$N/\" f.txt | tee f.txt" "layers               12 "
edited "sed -i 's/x*/y/g; s/4.*/8/' f.txt" "output of sed"
edited "sed -i 's/\\(4\\)\\{1\\}.*/8/' f.txt" "output of sed"
edited "sed -i 's/\\(=\\)4.*/\\18/' f.txt" "layers               8 "
edited "sed -n -i 's/4 .*/16/p' f.txt" "layers               16 "
edited "sed -i 'p;s/4 .*/16/' f.txt" "output of sed"
edited "[ -e nobody ] && sed -i 's/ .*//' f.txt" "depends on a condition"
# another process gets the exported variables, and no others
printf '%s\n' '#!/bin/bash' 'export A=8' 'B=4' "echo '--num-layers \$A --log \$(A) --seq-length \$B' | envsubst >f.txt" \
	'pretrain_gpt.py $(cat f.txt)' >job.sh
exits 0 p4d read job.sh
prints "layers               8 " "seq-len              \$B is not set"
# an export without a known name may be any variable
printf '%s\n' '#!/bin/bash' "export \$(grep -v '^#' nowhere.env | xargs)" 'pretrain_gpt.py --num-layers ${LAYERS:-4}' >job.sh
exits 0 p4d read job.sh
prints "layers               \$LAYERS may be set by the output of grep" "output of grep cannot be read, so p4d does not know what it sets"
# an option of one letter has a name
printf '%s\n' '#!/bin/bash' 'python deepy.py train.py c.yml -d' >job.sh
exits 0 p4d read job.sh
prints "  d                    -d (job.sh:2) has no value"
# a file whose name is computed may set anything
printf '%s\n' 'model_name_or_path: gpt2' 'deepspeed: ${oc.env:DS}' 'per_device_train_batch_size: ${.x}' >worked.yaml
printf '%s\n' '#!/bin/bash' 'trl sft --config worked.yaml' >job.sh
exits 0 p4d read job.sh
prints "the value is computed from other values: \${oc.env:DS}" "the value is computed from other values: \${.x}" "model                gpt2 "
prints "framework            deepspeed      worked.yaml:2" "zero-stage           the value is in a configuration file that p4d did not read"
# all GPUs that a node has
for count in gpu auto; do
	printf '%s\n' '#!/bin/bash' '#SBATCH -N2 --gpus-per-node=4' "srun torchrun --nnodes 2 --nproc-per-node=$count $program" >job.sh
	exits 0 p4d read job.sh
	prints 'gpus-per-node        4              $SLURM_GPUS_ON_NODE' "nodes                2 "
done

# Slurm replaces CUDA_VISIBLE_DEVICES of sbatch's environment; what the script makes of another variable stays.
printf '#!/bin/bash\n#SBATCH -N1 --gpus-per-node=8\nexport CUDA_VISIBLE_DEVICES=$MINE\ndeepspeed run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --block_size 2048 --bf16 --do_train\n' \
	>visible.sh
exits 0 env MINE=0,1 p4d read visible.sh
prints "gpus-per-node        2              \$MINE"
sed -i '/^export/d' visible.sh
exits 0 env CUDA_VISIBLE_DEVICES=0,1 p4d read visible.sh
prints "gpus-per-node        8              \$SLURM_GPUS_ON_NODE"

# ranks that srun starts, of which WORLD_SIZE is the number
ranked() # ranked SBATCH COMMAND
{
	printf '%s\n' '#!/bin/bash' "#SBATCH $1" "$2" >job.sh
	exits 0 p4d read job.sh
}
hf='run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --block_size 128 --do_train'
ranked '-N2 --ntasks-per-node=4 --gpus-per-task=1' "srun bash -c 'export RANK=\$SLURM_PROCID WORLD_SIZE=\$SLURM_NTASKS; exec python $hf'"
prints "global-batch         64 " "nodes                2 " "gpus-per-node        4 "
ranked '-N2 --ntasks-per-node=4 --gpus-per-task=1' "export WORLD_SIZE=7; srun python $hf"
prints "but the number of GPUs is not known"
ranked '-N2 --gpus-per-node=4' "export WORLD_SIZE=2; srun torchrun --nnodes 2 --nproc_per_node 4 $hf"
prints "gpus-per-node        4 " "global-batch         64 "
# whole numbers that Python prints
for sum in '1 + 7' '16 // (1 * 2)' 'int(65 / 8)' 'int(2**7/(4*4))' '(20 % 12)' 'int(16)//2'; do
	started "pip=\$(python3 -c \"print($sum)\")" "pretrain_gpt.py --tensor-model-parallel-size \$pip --num-layers 4"
done
for sum in '16 / 2' 'int(1/2*16)' '-17 // 2' 'int("8")' 'round(8)' '8, 9' '8.0'; do
	printf '%s\n' '#!/bin/bash' "N=\$(python -c 'print($sum)')" 'pretrain_gpt.py --num-layers $N' >job.sh
	exits 0 p4d read job.sh
	prints "layers               output of python"
done
# mapfile with one line for each node
printf '%s\n' '#!/bin/bash' '#SBATCH -N4' 'mapfile -t H < <(scontrol show hostnames "$SLURM_JOB_NODELIST")' 'pretrain_gpt.py --num-layers ${#H[@]}' >job.sh
exits 0 p4d read job.sh
prints "layers               4 "
# a configuration that a command prints
printf 'base_model: Qwen/Qwen2.5-3B\nmicro_batch_size: @B@\n' >bare.yml
printf '%s\n' '#!/bin/bash' '#SBATCH -N1 --gpus=2' 'axolotl train <(sed "s/@B@/4/" bare.yml)' >job.sh
exits 0 p4d read job.sh
prints "model                Qwen/Qwen2.5-3B " "micro-batch          4 "
printf '%s\n' '#!/bin/bash' '#SBATCH -N1 --gpus=2' 'axolotl train <(generate)' >job.sh
exits 0 p4d read job.sh
prints "output of generate"
case $out in *"micro-batch "*) fail "a value of a configuration that p4d cannot read: $out" ;; esac
# another program with TRL's arguments has defaults of its own
printf '%s\n' '#!/bin/bash' 'python my_grpo.py --model Qwen/Qwen3-8B --num_generations 5 --max_prompt_length 512 --max_response_length 1024' >job.sh
exits 0 p4d read job.sh
case $out in *"seq-len  "*" 768 "*) fail "a default of TRL: $out" ;; esac

# an image that starts a server, with options for it
for image in 'docker run --rm --gpus all -v $PWD:/w --ipc=host vllm/vllm-openai:v0.8.5' 'podman run vllm/vllm-openai:latest' \
	'apptainer run --nv /images/vllm-openai_v0.9.sif' 'srun singularity run --nv vllm-openai.sif'; do
	printf '%s\n' '#!/bin/bash' '#SBATCH -N1 --gpus-per-node=8' \
		"$image --model Qwen/Qwen2.5-7B --tensor-parallel-size 4 --max-model-len 8192" >job.sh
	exits 0 p4d read job.sh
	prints "(vllm), started at" "model                Qwen/Qwen2.5-7B " "tp                   4 " "seq-len              8192 "
done
printf '%s\n' '#!/bin/bash' 'docker run -it vllm/vllm-openai:latest bash' 'docker run other/image:1 --tensor-parallel-size 4' >job.sh
exits 0 p4d read job.sh
prints "p4d found no training program"
