#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# client_log = syslog: what sbatch and srun refuse goes to syslog; the rest is slurmctld's to log.
. "${0%/*}/lib.sh"

# a stand-in for syslog(3) and its fortified form
cat >syslog.c <<'END'
#include <stdarg.h>
#include <stdio.h>
static void append(const char *format, va_list args)
{
	FILE *file = fopen(LOG, "a");
	vfprintf(file, format, args);
	fputc('\n', file);
	fclose(file);
}
void syslog(int priority, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	append(format, args);
	va_end(args);
}
void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	append(format, args);
	va_end(args);
}
END
cc -shared -fPIC -DLOG="\"$work/log\"" -o syslog.so syslog.c || skip "needs a compiler"
with_syslog() { env LD_PRELOAD="$work/syslog.so${LD_PRELOAD:+:$LD_PRELOAD}" "$@"; }
: >log
run with_syslog sbatch -H $node $toobig job.sh
refused P4D013 spank
[ ! -s log ] || fail "it was logged without being asked"
sed 's/^admin_comment = plan$/client_log = syslog/' "$CLUSTER/p4d.conf.good" >conf
mv conf "$CLUSTER/etc/p4d.conf"
run with_syslog sbatch -H -J "a
b" $node $toobig job.sh
refused P4D013 spank
run with_syslog sbatch -H -p warn $node $toobig job.sh
accepted
run cat log
same "$(wc -l <log)" 1
contains "$out" 'p4d: event="submit" verdict="refuse" code="P4D013'
contains "$out" ' job="a\x0ab" '
contains "$out" 'source="client" text="llama2-70b needs'
