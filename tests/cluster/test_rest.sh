#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs submitted through Slurm's REST interface are judged like any other, and the answer says why one was refused as far as
# Slurm has room for that.
. "${0%/*}/lib.sh"

command -v slurmrestd >/dev/null || skip "slurmrestd is not installed"
plugins=$(sed -n 's/^PluginDir=\([^:]*\).*/\1/p' "$SLURM_CONF")
version=$(ls "$plugins" | sed -n 's/^\(openapi\|data_parser\)_v0_0_\([0-9]*\)\.so$/\2/p' | sort -n | tail -1)
[ -n "$version" ] || skip "slurmrestd has no plugins"
# Without accounting the plugins for it do not load.
if [ "$version" -le 38 ]; then
	serve="-s openapi/v0.0.$version"
else
	serve="-s slurmctld -d v0.0.$version"
fi
# It serves neither root nor SlurmUser (unless that is all there is), and no request that others could read.
as_client()
{
	if [ "$(id -u)" = 0 ]; then
		chown daemon request
		setpriv --reuid=daemon --regid=daemon --clear-groups "$@"
	else
		env SLURMRESTD_SECURITY=disable_user_check "$@"
	fi
}
umask 077

partition=h100 script=true

# rest GPUS [NAME=VALUE...]: submits; the answer is in $out. Without a socket: one request, on standard input.
rest()
{
	gpus=$1
	shift
	environment='"PATH=/usr/bin:/bin"'
	for variable in "$@"; do
		environment="$environment, \"$variable\""
	done
	request=$(printf '%s' '{"script": "#!/bin/sh\n'"$script"'\n", "job": {"name": "'"$SBATCH_JOB_NAME"'", "hold": true, "nodes": ')
	if [ "$version" -le 38 ]; then
		request="$request 1, \"gres\": \"gpu:$gpus\", \"environment\": {$(echo "$environment" | sed 's/\("[A-Za-z0-9_]*\)=/\1": "/g')},"
	else
		request="$request \"1\", \"tres_per_node\": \"gres/gpu:$gpus\", \"environment\": [$environment],"
	fi
	request="$request \"partition\": \"$partition\", \"current_working_directory\": \"/tmp\"}}"
	printf 'POST /slurm/v0.0.%s/job/submit HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
		"$version" "${#request}" "$request" >request
	run as_client sh -c "timeout 20 slurmrestd -a rest_auth/local $serve <request"
	id=$(printf '%s\n' "$out" | sed -n 's/^ *"job_id": *\([0-9]*\),*$/\1/p' | head -1)
}
accepted() { [ "${id:-0}" -gt 0 ] || fail "refused"; }

# refused CODE
refused()
{
	[ "${id:-0}" = 0 ] || fail "accepted"
	says "p4d: [$1]" # in slurmrestd's log, for the site
	contains "$out" "Invalid generic resource (gres) specification"
}

# A plan as a client gets it: pasted from `p4d plan --env`.
plan() { p4d plan --env --conf="$CLUSTER/etc/p4d.conf" --nodes=1 --gpus-per-node=8 "$@" | sed -n "s/^export \([A-Z0-9_]*\)='*\([^']*\)'*$/\1=\2/p"; }
set -f
IFS='
'
rest 8
accepted
rest 8 $(plan --gpu=h100 --model=llama13b)
accepted
contains "$(job "$id" AdminComment)" "p4d"
rest 8 _SLURM_SPANK_OPTION_p4d_p4d_model=llama13b
refused P4D040
rest 8 $(plan --gpu=b200 --model=llama2-70b)
refused P4D012
rest 4 $(plan --gpu=h100 --model=llama13b)
refused P4D035
# an answer to a job that passes has room for the message
partition=warn
rest 8 _SLURM_SPANK_OPTION_p4d_p4d_model=llama13b
accepted
contains "$out" '"job_submit_user_msg": "p4d: [P4D040]'

# what the script says is judged from its text
partition=h100
script="torchrun pretrain_gpt.py --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096"
script="$script --micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16"
rest 8
accepted
contains "$out" '"job_submit_user_msg": "p4d: [P4D012] script:2 (pretrain_gpt.py) needs'
sed 's/^mode = enforce/&\nscripts = judge/' "$CLUSTER/p4d.conf.good" >judge.conf
put_site judge.conf
rest 8
refused P4D012
