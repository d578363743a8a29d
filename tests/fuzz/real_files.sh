# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# p4d_fuzz_real_files SOURCE TARGET: the real files that a target reads, beside its corpus of small inputs.
p4d_fuzz_real_files()
{
	case $2 in
	conf) echo "$1/etc/p4d.conf" "$1/tests/cluster/p4d.conf" ;;
	gpus) echo "$1/etc/gpus.json" ;;
	reader | arguments) echo "$1/tests/data/scripts" ;;
	model) echo "$1/etc/models" "$1/tests/data/hf" ;;
	template) find "$1/tests/data/templates" -name '*.jinja' ;;
	esac
}
