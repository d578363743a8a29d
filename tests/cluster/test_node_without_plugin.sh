#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a node without p4d.so a batch script has its plan and the variables that follow from it: slurmctld puts them into its
# environment.
. "${0%/*}/lib.sh"

cat >show.sh <<'END'
#!/bin/sh
/usr/bin/env | grep -c '^P4D_'
echo "tp=$P4D_TP args=$P4D_MEGATRON_ARGS"
[ -n "$P4D_PLAN" ] && echo plan
END
chmod +x show.sh
megatron="$node --p4d-model=llama13b $layout --p4d-seq-len=2048 --p4d-global-batch=1024 --p4d-framework=megatron"
for export in "" --export=ALL --export=NONE --export=HOME,PATH; do
	rm -f with without
	run sbatch $export -o with $megatron show.sh
	accepted
	finished "$id"
	# slurmstepd reads this line for each step
	run sbatch $export -H -o without $megatron show.sh
	accepted
	conf=$(scontrol show config | sed -n 's/^PlugStackConfig *= *//p')
	mv "$conf" "$conf.away"
	at_end() { mv "$conf.away" "$conf" 2>/dev/null; }
	: >"$conf"
	scontrol release "$id"
	finished "$id"
	mv "$conf.away" "$conf"
	same "$state" COMPLETED
	contains "$(cat without)" "tp=8 args=--"
	contains "$(cat without)" "--tensor-model-parallel-size 8"
	contains "$(cat without)" plan
	same "$(sed -n 2,3p without)" "$(sed -n 2,3p with)" "${export:-no --export}: without p4d.so the script has"
done
