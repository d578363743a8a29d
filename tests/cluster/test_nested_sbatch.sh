#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job submitted from inside a p4d job inherits neither its options nor its P4D_ variables.
. "${0%/*}/lib.sh"

cat >outer.sh <<END
#!/bin/sh
sbatch --parsable -N1 -n1 -o $work/inner job.sh
echo "status \$?"
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o outer outer.sh
accepted
finished "$id"
run cat outer
contains "$out" "status 0"
lacks "$out" "p4d:"
inner=$(head -1 outer)
finished "$inner"
same "$(job "$inner" AdminComment)" ""
run cat inner
lacks "$out" P4D_
