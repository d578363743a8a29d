#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Without a p4d option nothing opens libp4d-client.so. Where it cannot be used, one line says so, and slurmctld decides.
. "${0%/*}/lib.sh"

mkdir broken
cp "$BUILD/.libs/p4d.so" broken/
echo "no library" >broken/libp4d-client.so
echo "required $work/broken/p4d.so" >plugstack.conf
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >slurm.conf
export SLURM_CONF="$work/slurm.conf"

run sbatch -H $node job.sh
accepted
silent
run sbatch -H -p observe $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
says "p4d: $work/broken/libp4d-client.so is not usable"
does_not_say error
# what was asked for reaches slurmctld
run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
refused P4D040 slurmctld
says "--tp=8"
run sbatch -v -H -p observe $node --p4d-model=llama13b job.sh
accepted
says "libp4d-client.so: "
# of another build
version=$(p4d --version | awk '{ print $2 }')
sed "s/$version/$(echo "$version" | tr 0-9 9)/" "$BUILD/.libs/libp4d-client.so" >broken/libp4d-client.so
run sbatch -v -H -p observe $node --p4d-model=llama13b job.sh
accepted
says "another build"
