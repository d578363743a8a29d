#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job without any p4d option is judged by the arguments that its script passes to the training program, as the site
# wants.
. "${0%/*}/lib.sh"

# scripts VALUE: sets it for the whole site
conf=$CLUSTER/etc/p4d.conf
scripts()
{
	sed "s/^mode = enforce/&\nscripts = $1/" "$CLUSTER/p4d.conf.good" >"$conf.new"
	put_site "$conf.new"
}

# A 13B job, which needs more than one GPU has for its parameters and what belongs to them.
cat >train.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
env | grep P4D >out
torchrun --nproc_per_node 8 pretrain_gpt.py \
	--num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 \
	--seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope \
	--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights \
	--disable-bias-linear --vocab-size 32000 --bf16 --hidden-dropout 0 \
	--tensor-model-parallel-size 1 \
	--micro-batch-size 1 --global-batch-size 64
END
sed "s/^torchrun/: torchrun/" train.sh >hidden.sh
sed 's/tensor-model-parallel-size 1/tensor-model-parallel-size 8/' train.sh >fits.sh
sed 's/parallel-size 1/parallel-size $(cat tp)/' train.sh >unknown.sh

# advise, the default: the job passes with one short block, and is as it would be without p4d
run sbatch -H train.sh
accepted
says "p4d: [P4D012] train.sh:4 (pretrain_gpt.py) needs"
says "p4d: fix: train.sh:"
says "p4d read the values in train.sh:4 (pretrain_gpt.py); the job is submitted as it is"
does_not_say error
[ "$(printf '%s\n' "$err" | wc -l)" -le 3 ] || fail "more than a short block"
# the verdict can be joined with the job, and with its line in the log
record=$(job "$id" AdminComment)
contains "$record" "p4d-verdict:"
contains "$record" "of79.1GiB,nodes=1,gpus-per-node=8,tp=1,"
contains "$record" ",framework=megatron,phase="
contains "$record" ",verdict=would-refuse,code=P4D012+P4D118,mode=enforce,read=script,digest="
digest=$(printf '%s' "$record" | sed 's/.*,digest=\([0-9a-f]*\),.*/\1/')
contains "$(grep " id=\"${record##*,id=}\" " "$CLUSTER/log/slurmctld.log")" " digest=\"$digest\" "
run sbatch -Q -H train.sh
accepted
silent
log=$(grep 'code="P4D012,P4D118"' "$CLUSTER/log/slurmctld.log" | tail -1)
contains "$log" 'verdict="would-refuse"'
contains "$log" 'read="script"'
run sbatch -o /dev/null train.sh
accepted
finished "$id"
run cat out
lacks "$out" P4D_
# what fits, or starts nothing that p4d knows, is not worth a word
run sbatch -H fits.sh
accepted
silent
contains "$(job "$id" AdminComment)" ",verdict=pass,mode=enforce,read=script,digest="
run sbatch -H hidden.sh
accepted
silent
same "$(job "$id" AdminComment)" ""
# what only sbatch can read is in the record as it saw it
printf 'size="%s"\n' "$(sed '1,/^torchrun/d' train.sh | tr -d '\\\n')" >size.sh
printf '%s\n' '#!/bin/bash' '. ./size.sh' 'torchrun --nproc_per_node 8 pretrain_gpt.py $size' >sourced.sh
run sbatch -H $node sourced.sh
accepted
says "p4d: [P4D012] sourced.sh:3 (pretrain_gpt.py) needs"
sourced=$(job "$id" AdminComment)
contains "$sourced" ",by=client,digest=$digest,"
same "${sourced%%,verdict=*}" "${record%%,verdict=*}"
# what cannot be read is named, with why and the option that would say it
run sbatch -H unknown.sh
accepted
says "p4d: [P4D117] unknown.sh:4 (pretrain_gpt.py) was not checked: p4d cannot tell tp (output of cat)"
same "$(fix)" "--p4d-tp=N"
does_not_say error
run p4d check unknown.sh
contains "$out" "would be submitted: not checked"
# typed options complete a script, and the script has the others
run sbatch -H --p4d-tp=8 unknown.sh
accepted
contains "$(job "$id" AdminComment)" "tp=8@u"
contains "$(job "$id" AdminComment)" "layers=40@j"
run sbatch -H --p4d-tp=1 unknown.sh
refused P4D012 spank
# the message about a typed option that contradicts the script has both places
run sbatch -H --p4d-tp=8 train.sh
refused P4D046 spank
says "--p4d-tp=8 does not reach the program: train.sh:9 has --tensor-model-parallel-size 1, which Megatron-LM uses"
same "$(fix)" "--p4d-tp=1; train.sh:4: add --pipeline-model-parallel-size 8"

# stdin: from a file, and from a pipe, where only slurmctld sees it
run sh -c 'sbatch -H <train.sh'
accepted
says "[P4D012] stdin:4 (pretrain_gpt.py) needs"
run sh -c 'cat train.sh | sbatch -H'
accepted
says "[P4D012] script:4 (pretrain_gpt.py) needs"
does_not_say error

scripts judge
run sbatch -H train.sh
refused P4D012 spank
says "p4d read the values in train.sh:4 (pretrain_gpt.py)"
does_not_say "submitted as it is"
run p4d check train.sh
refused P4D012
# pasted into the script, the fix is accepted
change=$(fix)
line=$(printf '%s\n' "$change" | sed -n 's/^train.sh:\([0-9]*\): .*/\1/p')
case $change in
*": add "*) sed "${line}s/pretrain_gpt.py/& ${change##*: add }/" train.sh >mended.sh ;;
*) sed "${line}s/--[a-z-]* [0-9]*/${change##*: }/" train.sh >mended.sh ;;
esac
run sbatch -H mended.sh
accepted
contains "$(job "$id" AdminComment)" "@j"
run sbatch -H unknown.sh
accepted
says P4D117
run sh -c 'cat train.sh | sbatch -H'
refused P4D012 slurmctld
same "$(fix)" "p4d check JOB.sh"
run sh -c 'cat fits.sh | sbatch -H'
accepted
silent
# what accelerate finds in the user's home slurmctld does not read, and does not judge as if it were not there
mkdir -p home/accelerate
printf '%s\n' 'distributed_type: FSDP' 'fsdp_config:' '  fsdp_version: 2' '  activation_checkpointing: true' >home/accelerate/default_config.yaml
printf '#!/bin/sh\n#SBATCH -N1 --gpus-per-node=8\naccelerate launch sft.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 %s\n' \
	"--max_length 2048 --per_device_train_batch_size 1" >home.sh
run sh -c 'cat home.sh | HF_HOME=$PWD/home sbatch -H'
accepted
says "accelerate's default configuration may set values"
run env HF_HOME="$PWD/none" sbatch -H home.sh
refused P4D013 spank
# only the text that was submitted counts
cp fits.sh late.sh
run sbatch -H late.sh
accepted
cp train.sh late.sh
run scontrol update jobid="$id" timelimit=5
accepted
contains "$(job "$id" AdminComment)" "tp=8@j"
# arguments are the script's own
sed 's/parallel-size 1/parallel-size ${2:-1}/' train.sh >argument.sh
run sbatch -H argument.sh "a b" 8
accepted
silent
run sbatch -H argument.sh "a b"
refused P4D012 spank
run p4d check argument.sh "a b"
refused P4D012
# and so is what --export lets through
sed 's/parallel-size 1/parallel-size ${TP:-1}/' train.sh >exported.sh
run env TP=8 sbatch -H exported.sh
accepted
run env TP=8 sbatch -H --export=ALL,TP=1 exported.sh
refused P4D012 spank

# a hostile script ends in a job that is not read; slurmctld answers all the while
awk 'BEGIN { print "#!/bin/bash"; for (i = 0; i < 20000; i++) printf "A%d=\"$A%d$A%d\"\n", i, i - 1, i - 1; print "pretrain_gpt.py $A19999" }' >hostile.sh
run sbatch -H -N1 --gpus-per-node=8 hostile.sh
accepted
does_not_say error
run sh -c 'cat hostile.sh | sbatch -H -N1 --gpus-per-node=8'
accepted
run scontrol ping
contains "$out" "is UP"
scripts ignore
run sbatch -H train.sh
accepted
silent
run sh -c 'cat train.sh | sbatch -H'
accepted
silent
nodes_are_up
