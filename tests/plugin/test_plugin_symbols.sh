#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugins export what Slurm looks up and nothing else, and need nothing that the host does not bring.
set -u
cd "${P4D_TEST_BUILDDIR:-.}/.libs" || exit 1
failed=0
if nm -D --undefined-only p4d.so | grep -q __asan_init; then
	echo "the sanitizers bring symbols of their own"
	exit 77
fi

exports()
{
	have=$(nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort | tr '\n' ' ')
	shift 1
	if [ "$have" != "$* " ]; then
		echo "exported: $have"
		echo "expected: $*"
		failed=1
	fi
}

exports p4d.so plugin_name plugin_type plugin_version slurm_spank_init slurm_spank_init_post_opt \
	slurm_spank_task_exit slurm_spank_task_init spank_plugin_version
exports libp4d-client.so p4d_client
exports libp4d-json.so p4d_json
exports libp4d-reader.so p4d_reader
exports job_submit_p4d.so fini init job_modify job_submit plugin_name plugin_type plugin_version

# Slurm's own symbols come from the program that loads the plugin; linking its library would bring a second copy.
for plugin in p4d.so libp4d-client.so libp4d-json.so libp4d-reader.so job_submit_p4d.so; do
	if objdump -p "$plugin" | grep NEEDED | grep slurm; then
		echo "$plugin is linked with Slurm"
		failed=1
	fi
	if nm -D --undefined-only "$plugin" | awk '{ print $2 }' |
		grep -vE '^(slurm_|spank_|json_|cfg_|_ITM_|__gmon_start__|__asan_|__ubsan_|__sanitizer_)|@GLIBC_|@JSONC_'; then
		echo "$plugin: nothing defines these symbols"
		failed=1
	fi
done

# Every sbatch loads p4d.so, and libp4d-client.so for a job of p4d: they bring nothing along that sbatch does not have.
for plugin in p4d.so libp4d-client.so; do
	if objdump -p "$plugin" | grep NEEDED | grep -vE 'lib[cm]\.so|ld-linux|lib[au]san'; then
		echo "$plugin needs these libraries"
		failed=1
	fi
done
exit $failed
