#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh MODULE,... ARGUMENT...: pkg-config on a machine that lacks these modules, for trying ./configure there.
lacks=$(echo "$1" | tr , ' ')
shift
for argument in "$@"; do
	for module in $lacks; do
		case $argument in
		"$module" | "$module "*)
			echo "Package $module was not found" >&2
			exit 1
			;;
		esac
	done
done
exec pkg-config "$@"
