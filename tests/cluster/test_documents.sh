#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents' commands for a cluster, with `optional p4d.so` as they say, print what the documents show.
. "${0%/*}/lib.sh"

echo "optional $BUILD/.libs/p4d.so conf=$CLUSTER/etc/p4d.conf" >plugstack.conf
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >slurm.conf
export SLURM_CONF="$work/slurm.conf"
# shellcheck disable=SC2086 # --update, if a person asks for it
"$SOURCE/tests/documents.sh" ${P4D_DOCUMENTS:-} slurm "$SOURCE/README.md" "$SOURCE"/doc/*.md ||
	fail "P4D_DOCUMENTS=--update writes into the documents what is printed"
