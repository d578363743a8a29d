#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No job that passes gets a line with "error", whatever p4d lacks at submission or in slurmctld: users take such a
# line for the reason when their job fails later.
. "${0%/*}/lib.sh"

shared=$SLURM_CONF
bin=$BUILD/.libs
# with_client DIRECTORY: p4d.so from there, in a slurm.conf of the user; it reads the p4d.conf there, if any
with_client()
{
	echo "required $1/p4d.so${2:+ conf=$2}" >"$work/plugstack.conf"
	sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$shared" >"$work/slurm.conf"
	export SLURM_CONF="$work/slurm.conf"
}
passes()
{
	run "$@"
	accepted
	does_not_say rror
}
# submissions PARTITION: of every kind for which p4d has a message
submissions()
{
	passes sbatch -H -p "$1" $node job.sh
	passes sbatch -H -p "$1" $node $toobig job.sh
	passes sbatch -H -p "$1" $node --p4d-model=no-such-model job.sh
	passes sbatch -H -p "$1" $node --p4d-model=llama13b --p4d-tp=3 job.sh
	passes sbatch -H -p "$1" $node --p4d-model=llama13b job.sh
	passes sbatch -H -p "$1" --p4d-model=llama13b job.sh
}

for partition in warn observe off; do
	submissions "$partition"
done

echo "-- without libp4d-client.so"
mkdir alone
cp "$bin/p4d.so" alone/
echo "no library" >alone/libp4d-client.so
with_client "$work/alone"
for partition in warn observe off; do
	submissions "$partition"
done

printf 'mode = enforced\nversion = 1\n' >broken.conf
mkdir unreadable.conf
for conf in missing broken unreadable; do
	echo "-- p4d.conf is $conf"
	with_client "$bin" "$work/$conf.conf"
	for partition in warn observe off; do
		submissions "$partition"
	done
	passes sbatch -H $node $full job.sh
done

echo "-- steps that differ, that have no plan, and with every variant of the client"
cat >steps.sh <<END
for conf in "$shared" "$work/slurm.conf"; do
	export SLURM_CONF="\$conf"
	srun -n1 --p4d-tp=4 true
	srun -n1 --p4d-tp=8 true
	srun -n1 env -u P4D_PLAN true
done
END
export SLURM_CONF="$shared"
for partition in warn observe; do
	passes salloc -p "$partition" $node --p4d-model=llama13b --p4d-tp=8 sh steps.sh
	passes salloc -p "$partition" $node sh steps.sh
done

echo "-- slurmctld without p4d, and without a p4d.conf"
own=$work/cluster preload=${LD_PRELOAD:-} cluster=$SOURCE/tests/cluster/cluster.sh
at_end()
{
	"$cluster" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
"$cluster" start --auth=none --plugins="$bin" --no-nodes "$own" || fail "no cluster"
. "$own/env"
# restarted LINE: with this line about JobSubmitPlugins
restarted()
{
	"$cluster" crash "$own" controller
	sed -i "s/^#*JobSubmitPlugins=.*/$1/" "$SLURM_CONF"
	"$cluster" boot "$own" controller || fail "slurmctld did not start: $(cat "$own"/log/slurmctld.*)"
}
restarted '#JobSubmitPlugins='
passes sbatch -H $node job.sh
passes sbatch -H $node $full job.sh
passes sbatch -H $node --p4d-model=llama13b job.sh
rm "$own/etc/p4d.conf"
rm -rf "$own"/state/p4d*
submissions h100
restarted JobSubmitPlugins=p4d
submissions h100

echo "-- the first answer of slurmctld, to p4d, makes no sense, or is cut off"
address=$(sed -n 's/^SlurmctldHost=.*(\(.*\))/\1/p' "$SLURM_CONF") port=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
cat >between.pl <<'END'
use IO::Socket::INET;
use IO::Select;
my ($address, $port, $answer) = @ARGV;
my $door = IO::Socket::INET->new(LocalAddr => $address, LocalPort => 0, Listen => 5) or die "$!";
open my $file, ">", "port.new";
print $file $door->sockport;
close $file;
rename "port.new", "port";
my $first = $door->accept;
sysread $first, my $request, 65536;
select undef, undef, undef, 0.2;
if ($answer) {
	syswrite $first, pack("N", 10) . $answer;
	1 while sysread $first, $request, 65536;
}
close $first;
while (my $guest = $door->accept) {
	my $host = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port) or die "$!";
	my $both = IO::Select->new($guest, $host);
	for (my $more = 1; $more;) {
		for my $from ($both->can_read) {
			$more &&= sysread $from, my $text, 65536;
			syswrite $from == $guest ? $host : $guest, $text if $more;
		}
	}
}
END
# between ANSWER COMMAND...: run with that as the first answer; "": none
between()
{
	rm -f port
	perl between.pl "$address" "$port" "$1" &
	shift
	wait_until test -e port
	sed -i "s/^SlurmctldPort=.*/SlurmctldPort=$(cat port)/" "$SLURM_CONF"
	run "$@"
	sed -i "s/^SlurmctldPort=.*/SlurmctldPort=$port/" "$SLURM_CONF"
	kill "$!"
}
between "no message" sbatch -H -p mixed $node --p4d-model=llama13b job.sh
accepted
does_not_say rror
# the only one that could say what GPUs there are, to an sbatch whose p4d.conf is broken
put_site "$CLUSTER/p4d.conf.good" "$own"
echo nonsense >"$own/etc/p4d.conf"
between "" sbatch -H $node $toobig job.sh
refused P4D012 slurmctld
between "" sbatch -H $node $full job.sh
accepted
