#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An environment of 1 MB is carried, and still judged.
. "${0%/*}/lib.sh"

value=$(head -c 100000 /dev/zero | tr '\0' x)
for i in 0 1 2 3 4 5 6 7 8 9; do
	export "HUGE_$i=$value"
done
printf '#!/bin/sh\nsbatch -H %s %s job.sh\n' "$node" '"$@"' >big.sh
run sh big.sh --p4d-model=llama13b --p4d-tp=8
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
run sh big.sh $toobig
refused P4D013
