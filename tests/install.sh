#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILDDIR: `make install` puts everything in its place below DESTDIR, `make uninstall` removes it again.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
root=$(mktemp -d "$build/install.XXXXXX")
trap 'rm -rf "$root" "$root.spec" "$root.left" "$root.mk"' EXIT
make -C "$build" install DESTDIR="$root" >/dev/null

# The plugins are next to Slurm's own.
slurm=$(find /usr/lib* -type f -name select_cons_tres.so -exec dirname {} \; | head -1)
for file in /usr/local/bin/p4d "$slurm/p4d.so" "$slurm/job_submit_p4d.so" /usr/local/lib/p4d/libp4d-client.so \
	/usr/local/etc/p4d.conf \
	/usr/local/share/p4d/gpus.json /usr/local/share/p4d/models/llama13b.json /usr/local/share/man/man1/p4d.1 /usr/local/share/man/man1/p4d-backtest.1 /usr/local/share/man/man1/p4d-data.1 /usr/local/share/man/man1/p4d-rehearse.1 /usr/local/share/man/man1/p4d-report.1 /usr/local/share/p4d/p4d-job.sh \
	/usr/local/share/man/man5/p4d.conf.5 /usr/local/share/man/man7/p4d-codes.7 /usr/local/share/man/man7/p4d-options.7 /usr/local/share/man/man5/p4d-json.5 /usr/local/share/man/man7/p4d-systems.7 /usr/local/share/man/man8/p4d-spank.8 \
	/usr/local/include/p4d.h /usr/local/lib/libp4d.so.0.0.0 /usr/local/lib/pkgconfig/p4d.pc /usr/local/share/man/man3/p4d.3 \
	/usr/local/share/doc/p4d/examples/check_job.py /usr/local/share/doc/p4d/examples/job_submit.lua /usr/local/share/doc/p4d/examples/lua_p4d.c; do
	[ -f "$root$file" ] || { echo "$file was not installed:"; (cd "$root" && find . -type f); exit 1; }
done
for part in "$build"/.libs/libp4d-*.so; do
	[ ! -f "$part" ] || [ -f "$root/usr/local/lib/p4d/${part##*/}" ] || { echo "${part##*/} was not installed"; exit 1; }
done
[ "$(readlink "$root/usr/local/lib/libp4d.so")" = libp4d.so.0.0.0 ] || { echo "libp4d.so links elsewhere"; exit 1; }
[ "$(readlink "$root/usr/local/lib/libp4d.so.0")" = libp4d.so.0.0.0 ] || { echo "libp4d.so.0 links elsewhere"; exit 1; }
# Modules are opened, not executed.
(cd "$root" && find . -type f -name '*.so' ! -perm 644) | grep . && { echo "these are executable, or not for all"; exit 1; }

# A program that opens a module while it is installed again finds a whole one.
# shellcheck disable=SC2016 # make's
printf 'include Makefile\nprint:\n\t@echo $(INSTALL)\n' >"$root.mk"
install=$(make -C "$build" -s -f "$root.mk" print)
size=$(stat -c %s "$build/.libs/libp4d-client.so")
again() { for _ in $(seq 40); do $install "$build/.libs/libp4d-client.so" "$root/usr/local/lib/p4d/libp4d-client.so"; done; }
$install "$build/.libs/libp4d-client.so" "$root/usr/local/lib/p4d/libp4d-client.so"
again &
installs=$!
while kill -0 "$installs" 2>/dev/null; do
	found=$(stat -c %s "$root/usr/local/lib/p4d/libp4d-client.so" || echo no)
	[ "$found" = "$size" ] || { echo "$install: $found of $size bytes are there"; exit 1; }
done

# The RPM has every file, and none that is not there.
sed -n '/^%files/,/^%changelog/p' "$source/packaging/p4d.spec" | grep -oE '%\{_[a-z]+\}[^ ]*' | sed 's,%{_bindir},/usr/local/bin,
	s,%{_libdir},/usr/local/lib,; s,%{_datadir},/usr/local/share,; s,%{_mandir},/usr/local/share/man,; s,%{_docdir},/usr/local/share/doc,
	s,%{_sysconfdir}/slurm,/usr/local/etc,; s,%{_includedir},/usr/local/include,' >"$root.spec"
(cd "$root" && find . -type f -o -type l) | sed 's,^\.,,' | while read -r file; do
	case $file in "$slurm/p4d.so" | "$slurm/job_submit_p4d.so") continue ;; esac
	while read -r pattern; do
		# shellcheck disable=SC2254 # patterns
		case $file in $pattern | $pattern/*) continue 2 ;; esac
	done <"$root.spec"
	echo "$file"
done >"$root.left"
[ ! -s "$root.left" ] || { echo "not in %files of p4d.spec:"; cat "$root.left"; exit 1; }
while read -r pattern; do
	case $pattern in
	# the packages' own files, and those that are built if their libraries are there
	*/plugstack.conf.d/p4d.conf | */p4d-train* | */libp4d-*.so) continue ;;
	esac
	# shellcheck disable=SC2086 # patterns
	ls -d "$root"$pattern >/dev/null || { echo "p4d.spec has $pattern, which was not installed"; exit 1; }
done <"$root.spec"

(cd "$root" && find . -name '*.la') | grep . && { echo "these are of no use to anybody"; exit 1; }

make -C "$build" uninstall DESTDIR="$root" >/dev/null
left=$(find "$root" -type f -o -type l)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
