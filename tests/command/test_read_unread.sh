#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Values that an unreadable file or text may set are unknown: no default replaces them, and an exit that depends
# on one does not end the script.
. "${0%/*}/lib.sh"

unset TP PP TOOL_DIR MODEL_ARGS EXTRA TRAIN_ENV
train='srun python pretrain_gpt.py --tensor-model-parallel-size $TP --num-layers 40'
# reads LINE... : p4d read of these lines of a job script
reads()
{
	printf '%s\n' '#!/bin/bash' '#SBATCH --gpus-per-node=8' "$@" >job.sh
	exits 0 p4d read job.sh
}
# tp VALUE LINE...: --tp is that, or "open": not known, since the lines before the program may set it
tp()
{
	tp=$1
	shift
	reads "$@" "$train"
	case $tp in
	open) printf '%s\n' "$out" | grep -qE '^  tp +\$TP (may be set by|depends on a condition)' || fail "tp is known: $*" ;;
	*) printf '%s\n' "$out" | grep -qE "^  tp +$tp +job.sh" || fail "tp is not $tp: $*" ;;
	esac
}
starts() { printf '%s\n' "$out" | head -n 1 | grep -q 'started at' || fail "it starts nothing: $(cat job.sh)"; }

# ways to a default, after each way to leave something unread
for before in 'source /site/params.sh' '. params.sh' 'eval "$(python3 conf.py --shell)"' 'eval $(./conf.py)' 'source <(./conf.py)' \
	'set -a; source .env; set +a' 'export $(grep -v "^#" .env | xargs)' 'while read -r l; do export "$l"; done <.env' \
	'if [ -f params.sh ]; then source params.sh; fi' 'source "$TRAIN_ENV"'; do
	tp open "$before" 'TP=${TP:-1}'
	tp open "$before" ': "${TP:=1}"'
	tp open "$before" '[ -z "$TP" ] && TP=1'
	tp open "$before" 'if [[ -z ${TP-} ]]; then export TP=1; fi'
	tp open "$before" '[ "$TP" = "" ] && TP=1'
	tp open 'TP=' "$before" 'TP=${TP:-1}'
	# values that the script itself sets afterwards count
	tp 4 "$before" 'TP=4'
	tp 4 "$before" 'unset TP' 'TP=${TP:-4}'
	tp 4 "$before" 'TP=""' 'TP=${TP:-4}'
done
# names that a file gives are reported with the command that takes them
reads 'while IFS== read -r key value; do' '  [[ $key == \#* ]] && continue' '  export "$key=$value"' 'done <.env' 'TP=${TP:-1}' "$train"
prints 'file                 the export of line 5 cannot be read, so p4d does not know what it sets' \
	'tp                   $TP may be set by the export of line 5, which p4d cannot read'
reads 'for f in $(ls /site/*.sh); do' '  source $f' 'done' "$train"
prints 'file                 the file that line 4 sources cannot be read, so p4d does not know what it sets'
# in a subshell, or in another process, nothing of the kind happens to the script
tp 1 '(source /site/params.sh; echo done)' 'TP=${TP:-1}'
tp 1 'N=$(source /site/params.sh && echo $N)' 'TP=${TP:-1}'
tp 1 'bash /site/params.sh' 'TP=${TP:-1}'
# commands that print paths set nothing for a training
for hook in 'eval "$(conda shell.bash hook)"' 'eval "$(ssh-agent -s)"' 'eval $(opam env)' 'eval "$(micromamba shell hook --shell bash)"' \
	'eval "$(pyenv init -)"' 'eval "$(/opt/brew/bin/brew shellenv)"' 'eval "$(spack load --sh cuda)"' 'module load cuda/12.4' 'ml PyTorch' \
	'conda activate train' 'source activate train' 'source /opt/venv/bin/activate' 'source /etc/profile.d/modules.sh' '. /etc/profile' \
	"__conda_setup=\"\$('/opt/conda/bin/conda' 'shell.bash' 'hook' 2>/dev/null)\"; eval \"\$__conda_setup\""; do
	tp 1 "$hook" 'TP=${TP:-1}'
	tp 1 "$hook" '[ -z "$TP" ] && TP=1'
done
# a list that is added to may begin with anything
for add in 'MODEL_ARGS+=( --num-layers 40 )' 'MODEL_ARGS+=" --num-layers 40"' 'MODEL_ARGS="$MODEL_ARGS --num-layers 40"' \
	'MODEL_ARGS=(${MODEL_ARGS[@]} --num-layers 40)' 'MODEL_ARGS=("${MODEL_ARGS[@]}" --num-layers 40)'; do
	reads 'source /site/model.sh' "$add" 'srun python pretrain_gpt.py "${MODEL_ARGS[@]}" --hidden-size 64'
	prints 'arguments            $MODEL_ARGS may be set by /site/model.sh, which p4d cannot read' '  hidden               64 '
	# so nothing is a default of the program's
	printf '%s\n' "$out" | sed -n '/^Not in the script, so/,/^Not known/p' | grep -E '^  (tp|precision|recompute) ' &&
		fail "defaults stand in for what was not read: $add"
done
reads 'MODEL_ARGS=()' 'source /site/model.sh' 'srun python pretrain_gpt.py ${MODEL_ARGS[@]} --num-layers 40'
prints 'arguments            $MODEL_ARGS may be set by /site/model.sh'
reads 'MODEL_ARGS=()' 'MODEL_ARGS+=(--num-layers 40)' 'srun python pretrain_gpt.py ${MODEL_ARGS[@]}'
prints 'layers               40 '
# an option that is there where a variable is set
reads 'source /site/model.sh' 'srun python pretrain_gpt.py --num-layers 40 ${EXTRA:+--bf16}'
printf '%s\n' "$out" | grep -E '^  precision +(bf16|fp32) ' && fail 'precision is known'
# a script does not end where something unread decides
for before in 'source /site/env.sh' 'eval "$(./conf.py)"' 'module load tools' 'conda activate tools' 'ml tools'; do
	for test in 'if [ -z "$TOOL_DIR" ]; then echo none; exit 1; fi' '[ -n "$TOOL_DIR" ] || exit 1' '[[ -z $TOOL_DIR ]] && exit 2' \
		'test -z "$TOOL_DIR" && { echo none; exit 1; }'; do
		reads "$before" "$test" 'srun python pretrain_gpt.py --num-layers 40'
		starts
	done
done
# but it does if nothing can set the variable
reads 'if [ -z "$TOOL_DIR" ]; then exit 1; fi' 'srun python pretrain_gpt.py --num-layers 40'
prints 'it exits at job.sh:3'

# a configuration that a command changes in place is unknown; one that a command only reads is not
changed() # changed LINE...: p4d read of a script that writes a configuration, runs these lines, and trains with it
{
	printf '%s\n' '#!/bin/bash' 'cat >conf.yml <<Y' 'base_model: Qwen/Qwen2.5-7B' 'sequence_len: 4096' 'micro_batch_size: 1' Y "$@" \
		'axolotl train conf.yml' >job.sh
	exits 0 p4d read job.sh
}
write="c=yaml.safe_load(open('conf.yml')); c['micro_batch_size']=4; yaml.dump(c, open('conf.yml', 'w'))"
for edit in "yq -i '.micro_batch_size = 4' conf.yml" "yq e --inplace '.micro_batch_size = 4' conf.yml" "perl -pi -e 's/1/4/' conf.yml" \
	'crudini --set conf.yml a b c' "jq . x | sponge conf.yml" 'python scripts/update_config.py --in conf.yml --out=conf.yml' \
	'./modify_yaml.py conf.yml' \
	'python -u set_lr.py conf.yml' 'python tools/config_updater.py conf.yml' 'python yaml_patch.py conf.yml' 'python $HOME/a/folder/whose/path/is/longer/than/what/is/kept/of/it/fill_template.py conf.yml' \
	"python -c \"import yaml; $write\"" 'if [ -n "$X" ]; then yq -i .a=1 conf.yml; fi'; do
	X=1 changed "$edit"
	prints 'conf.yml: ' 'changes it'
done
changed 'python3 - <<PY' 'import yaml' "$write" PY
prints 'conf.yml: python changes it'
changed 'python - conf.yml <<PY' 'import sys, yaml' 'yaml.dump({}, open(sys.argv[1], "w"))' PY
prints 'conf.yml: python changes it'
for read in "yq '.micro_batch_size' conf.yml" "perl -ne print conf.yml" 'python prepare_data.py --config conf.yml' 'axolotl preprocess conf.yml' \
	"python -c \"print(open('conf.yml').read())\"" "python -c \"open('log.json', 'w').write('conf')\"" \
	'python dataset_stats.py conf.yml' 'python create_patches.py conf.yml' 'python credit.py conf.yml' 'python offset_table.py conf.yml' 'python eval/test_set.py conf.yml' \
	'python dispatch.py conf.yml'; do
	changed "$read"
	prints 'micro-batch          1 '
done
