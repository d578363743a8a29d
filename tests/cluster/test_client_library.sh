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
says "p4d: cannot use $work/broken/libp4d-client.so"
does_not_say error
# the options reach slurmctld
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

# what reads model files is opened by the job that names one, and its absence is no fault of the user's
cp "$BUILD/.libs/libp4d-client.so" broken/
echo "no library" >broken/libp4d-json.so
echo "no library" >broken/libp4d-reader.so
echo "required $work/broken/p4d.so conf=$CLUSTER/etc/p4d.conf" >plugstack.conf
cp "$SOURCE/etc/models/llama13b.json" own.json
run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
does_not_say P4D016
run sbatch -H $node --p4d-model=./own.json --p4d-tp=8 job.sh
accepted
says "P4D016" "cannot use $work/broken/libp4d-json.so" "not checked"
cp "$BUILD/.libs/libp4d-json.so" broken/
run sbatch -H $node --p4d-model=./own.json --p4d-tp=8 job.sh
accepted
does_not_say P4D016
run sbatch -H $node --p4d-model=./own.json --p4d-tp=1 --p4d-pp=1 job.sh
refused P4D012

# the same for the reader of job scripts: the first script that may start a training opens it, and its absence leads
# to one message
cat >train.sh <<'EOS'
#!/bin/bash
srun python pretrain_gpt.py
EOS
run sbatch -H -p observe $node --p4d-model=llama13b --p4d-tp=8 train.sh
accepted
says "cannot use $work/broken/libp4d-reader.so" "p4d did not read the job script"
cp "$BUILD/.libs/libp4d-reader.so" broken/
run sbatch -H -p observe $node --p4d-model=llama13b --p4d-tp=8 train.sh
accepted
does_not_say "libp4d-reader.so"
