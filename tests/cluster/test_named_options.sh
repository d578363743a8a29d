#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sbatch knows the options that are named, and reports unknown ones as before, wherever they are.
. "${0%/*}/lib.sh"

# abbreviations, as getopt_long takes them
run sbatch -H $node --p4d-model=llama13b --p4d-tp 8 --p4d-micro-batc 1 job.sh
accepted
contains "$(job "$id" AdminComment)" "micro-batch=1@u"
run sbatch -H $node --p4d-m job.sh
[ "$status" != 0 ] || fail "an ambiguous option was taken"
says "option '--p4d-m' is ambiguous; possibilities:"
says "'--p4d-model'"
run sbatch -H $node --p job.sh
says "option '--p' is ambiguous; possibilities:"
says "'--p4d-model'"
says "'--partition'"
for command in sbatch salloc srun; do
	run "$command" $node --p4d-nonsense=8 job.sh
	[ "$status" != 0 ] || fail "$command took an option that is none"
	says "unrecognized option '--p4d-nonsense=8'"
done

# in the script, also in an unusual form
cat >lines.sh <<'END'
#!/bin/sh

# of the job
#SBATCH -H "--p4d"-model=llama13b
  # and
#SBATCH --job-name="a name" --p4d\-tp=8 # --p4d-none
true
#SBATCH --p4d-pp=2
END
made="model=llama13b@u:tp=8@u"
run sbatch $node lines.sh
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
run sbatch -N 1 --gpus-per-node 8 lines.sh --help
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
run sh -c "sbatch $node <lines.sh"
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
run sh -c "cat lines.sh | sbatch $node"
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
# a script that is elsewhere: in PATH, in the job's directory
mkdir bin
mv lines.sh bin
chmod +x bin/lines.sh
run env "PATH=$work/bin:$PATH" sbatch $node lines.sh
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
run sbatch $node -D "$work/bin" lines.sh
accepted
contains "$(job "$id" AdminComment)" "$made"
scancel "$id"
printf '#!/bin/sh\n#SBATCH --p4d-nonsense\n' >wrong.sh
run sbatch $node wrong.sh
[ "$status" != 0 ] || fail "sbatch took an option that is none"
says "unrecognized option '--p4d-nonsense'"

# in a job, where srun finds the job's options
cat >outer.sh <<'END'
#!/bin/sh
srun --p4d-model=llama13b --p4d-tp=8 true && echo same
srun --p4d-model=llama13b --p4d-tp=4 true || echo refused
srun true && echo plain
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o outer outer.sh
accepted
finished "$id"
run cat outer
contains "$out" same
contains "$out" refused
contains "$out" plain
