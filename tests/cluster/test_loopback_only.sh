#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The private cluster itself listens on the loopback only, on all of its five ports.
. "${0%/*}/lib.sh"

first=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
for port in 0 1 2 3 4; do
	# local addresses as the kernel prints them: 0100007F:4268
	listening=$(awk -v port=":$(printf %04X $((first + port)))" \
		'$4 == "0A" && substr($2, length($2) - 4) == port { print $2 }' /proc/net/tcp /proc/net/tcp6)
	case $listening in
	??????7F:*) ;;
	*) fail "port $((first + port)): '$listening'" ;;
	esac
done
