#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A nested sbatch with its own options is judged only by these.
. "${0%/*}/lib.sh"

cat >outer.sh <<END
#!/bin/sh
sbatch --parsable -H $node --p4d-model=llama7b --p4d-tp=2 job.sh
END
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o outer outer.sh
accepted
finished "$id"
run cat outer
inner=$(grep -x '[0-9]*' outer)
contains "$(job "$inner" AdminComment)" "model=llama7b@u:tp=2@u"
