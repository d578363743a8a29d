#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cli_filter.lua, on a submit host without C plugins: p4d check refuses and warns before sbatch submits, no word of a command
# line reaches a shell, and whatever is wrong with p4d, sbatch submits. slurmctld has no say in partition off.
. "${0%/*}/lib.sh"

directory=$(sed -n 's/^PluginDir=\([^:]*\).*/\1/p' "$SLURM_CONF")
[ -e "$directory/cli_filter_lua.so" ] || skip "no cli_filter_lua.so"
without_spank
{ cat "$SLURM_CONF" && echo CliFilterPlugins=lua; } >with-filter
mv with-filter "$SLURM_CONF"
cat >p4d.conf <<'END'
mode = enforce
scripts = judge
partition off {
	gpu = { "h100-80gb" }
	gpus_per_node = 8
}
partition warn {
	gpu = { "h100-80gb" }
	gpus_per_node = 8
	mode = warn
}
version = 1
END
# filter [SED-SCRIPT]: the example, changed
filter() { sed "${1:-}" "$SOURCE/etc/cli_filter.lua" >cli_filter.lua; }
filter
cp job.sh plain.sh
unset SBATCH_JOB_NAME SLURM_JOB_NAME # -J is among what is typed
named="-J ${0##*/}"
run sbatch -H $named -p off plain.sh
case $err in *liblua* | *"cli_filter"*) skip "Slurm cannot use cli_filter.lua: $err" ;; esac
accepted
silent

cat >large.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=1
python run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 8 --block_size 4096 --bf16 --do_train
END
sed 's,meta-llama/Llama-3.1-8B,Qwen/Qwen2.5-0.5B,; s/batch_size 8/batch_size 1/' large.sh >fits.sh

# What p4d says reaches the user, and nothing of a refused job reaches slurmctld.
run sbatch -H $named -p off large.sh
refused P4D012
says "cli_filter"
same "$out" ""
run sbatch -H $named -p off fits.sh
accepted
silent
run sbatch -H $named -p warn large.sh
accepted
says "p4d: ["
# ... also where slurmctld says nothing
cp p4d.conf enforces
sed 's/^partition off {/&\n\tmode = warn/' enforces >p4d.conf
run sbatch -H $named -p off large.sh
accepted
says "p4d: [P4D012]"
cp enforces p4d.conf

# p4d does not judge the script of a job with components, and it runs once.
run sbatch -H $named -p off -N1 : -p off -N1 plain.sh
accepted
silent

# Words of the command line, of scripts and their names are words.
mkdir "odd; touch pwned; it's \$(touch pwned) \`touch pwned\`"
odd=$(echo odd*)
cp large.sh "$odd/it's \"large\" \$(touch pwned).sh"
cp fits.sh "$odd/-fits.sh"
newline='a
touch pwned'
for word in "';touch pwned;'" '$(touch pwned)' '`touch pwned`' '"; touch pwned; "' "$newline" "--help'" '\' "'"; do
	run sbatch -H $named -p off --comment="$word" "$odd/it's \"large\" \$(touch pwned).sh" "$word"
	refused P4D012
	run sbatch -H $named -p off --comment="$word" "$odd/-fits.sh" "$word" -- --conf=/etc/passwd
	accepted
	silent
	same "$(job "$id" JobState)" PENDING
done
[ -z "$(find . -name pwned)" ] || fail "a word was executed"

# Without an operand there is no script to ask about, but that of --wrap.
run sbatch -H $named -p off -N1 --gpus-per-node=1 --wrap="$(tail -1 large.sh)"
refused P4D012
run sh -c "sbatch -H $named -p off <large.sh"
accepted
silent
run srun -p off -N1 true
accepted
silent

# p4d that is missing, fails, hangs or says something else: the job is submitted, and not later than `seconds`.
cat >wrong <<'END'
#!/bin/sh
case $WRONG in
status) exit 12 ;;
killed) kill -SEGV $$ ;;
noise) echo "p4d: would be a pity"; echo "something" >&2; exit 12 ;;
error) echo "p4d: [P4D003] cannot read" >&2; exit 3 ;;
hangs) trap '' TERM; sleep 60 ;;
floods) yes "something" ;;
esac
END
chmod +x wrong
filter "s,^local p4d = .*,local p4d = \"$work/wrong\",; s,^local seconds = .*,local seconds = \"1\","
for WRONG in status killed noise error hangs floods; do
	export WRONG
	since=$(date +%s)
	run sbatch -H $named -p off large.sh
	accepted
	silent
	[ $(($(date +%s) - since)) -lt 20 ] || fail "$WRONG: sbatch waited"
done
unset WRONG
for change in 's,^local p4d = .*,local p4d = "/nonexistent/p4d",' 's/"timeout /"no-such-timeout /' 's,/proc/self/cmdline,/nonexistent,'; do
	filter "$change"
	run sbatch -H $named -p off large.sh
	accepted
	silent
done
