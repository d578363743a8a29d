#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh [--twice] [--next] [--rpm] FOLDER: builds the Debian packages in FOLDER from a copy of the sources, looks into each,
# and installs, removes and purges them below FOLDER, with a dpkg database of its own. P4D_PACKAGES_PROFILE=pkg.p4d.notrain leaves
# p4d-train out.
#   --twice  builds packages and tarball again in another folder, with other dates and rights: they are the same to the byte
#   --next   also makes the packages of the next version, with another sample of p4d.conf, in FOLDER/next
#   --rpm    also builds RPMs from the tarball
# shellcheck disable=SC2317 # functions are called by test_that
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
twice='' next='' rpm=''
while [ $# -gt 1 ]; do
	case $1 in
	--twice) twice=1 ;;
	--next) next=1 ;;
	--rpm) rpm=1 ;;
	*) echo "packages.sh: unknown option $1" >&2; exit 2 ;;
	esac
	shift
done
mkdir -p "$1"
folder=$(cd "$1" && pwd) || exit 1
profile=${P4D_PACKAGES_PROFILE:-}
skip() { echo "skip  packages: $*"; exit 0; }
command -v dpkg-buildpackage >/dev/null || skip "dpkg-dev is not installed"
command -v dh >/dev/null || skip "debhelper is not installed"

failed=0
# test_that NAME FUNCTION: a line
test_that()
{
	if "${@:2}" >"$folder/said" 2>&1; then
		echo "ok    packages/$1"
	else
		echo "FAIL  packages/$1"
		tail -40 "$folder/said" | sed 's/^/      | /'
		failed=1
	fi
}

# copy_sources FOLDER: as FOLDER/p4d
copy_sources()
{
	rm -rf --one-file-system "${1:?}/p4d"
	mkdir -p "$1/p4d"
	{ git -C "$source" ls-files -z --cached --others --exclude-standard 2>/dev/null ||
		(cd "$source" && find . -name 'build*' -prune -o -type f -print0); } |
		tar -C "$source" --null --files-from=- -cf - | tar -C "$1/p4d" -xf -
}

build()
{
	rm -f "$folder"/*.deb
	copy_sources "$folder" && cd "$folder/p4d" && dpkg-buildpackage -b -us -uc ${profile:+-P"$profile"}
}

# Like another person: in a folder with a longer path, with sources that only the owner can read, on another day of
# the same clock.
build_elsewhere()
{
	elsewhere=$folder/elsewhere/a/longer/path
	rm -rf --one-file-system "$folder/elsewhere"
	copy_sources "$elsewhere" && cd "$elsewhere/p4d" && chmod -R go= . && find . -exec touch -d '2001-02-03 18:00' {} + || return
	(umask 077 && export TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 CCACHE_DISABLE=1 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} noautodbgsym" &&
		exec dpkg-buildpackage -b -us -uc ${profile:+-P"$profile"}) || return
	differ=0
	for one in $packages; do
		cmp "$(package "$one")" "$elsewhere/$(basename "$(package "$one")")" && continue
		differ=1
		for each in "$(package "$one")" "$elsewhere/$(basename "$(package "$one")")"; do
			rm -rf --one-file-system "$folder/unpacked"
			dpkg-deb -R "$each" "$folder/unpacked" &&
				(cd "$folder/unpacked" && find . -type f -exec sha256sum {} + && dpkg-deb -c "$each") | sort >"$each.list"
		done
		diff "$(package "$one").list" "$elsewhere/$(basename "$(package "$one")").list"
	done
	rm -rf --one-file-system "$folder/unpacked"
	return "$differ"
}

# tarball_in FOLDER: from the packages' build
tarball_in() { SOURCE_DATE_EPOCH=1735689600 make -C "$1/p4d/build-debian" dist; }
tarball() { tarball_in "$folder" && tar -tf "$folder"/p4d/build-debian/p4d-*.tar.xz | grep -q '/man/p4d\.1$'; }
tarball_elsewhere()
{
	(umask 077 && export TZ=Pacific/Kiritimati && tarball_in "$folder/elsewhere/a/longer/path") || return
	cmp "$folder"/p4d/build-debian/p4d-*.tar.xz "$folder"/elsewhere/a/longer/path/p4d/build-debian/p4d-*.tar.xz
}

# rpmbuild does not know Debian's packages, so it is not asked. Files that %files lacks are an error to it. Nothing of it is run: it
# is compiled in a third of the time.
rpms()
{
	rm -rf --one-file-system "$folder/rpm"
	rpmbuild -tb --nodeps --define "_topdir $folder/rpm" --define 'optflags -O0' "$folder"/p4d/build-debian/p4d-*.tar.xz || return
	found=$(find "$folder/rpm/RPMS" -name '*.rpm' -exec rpm -qp --qf '%{NAME}\n' {} + 2>/dev/null | sort | tr '\n' ' ')
	[ "$found" = "p4d p4d-devel p4d-doc p4d-libs p4d-rehearsal p4d-slurm p4d-train " ] || { echo "these: $found"; return 1; }
}

# What Slurm's release says, in the way that the package of Debian says it; configuration files; modes.
rpm_contents()
{
	plugin=$(find "$folder/rpm/RPMS" -name 'p4d-slurm-*.rpm')
	slurm_release || return
	wanted=$(rpm --eval 'slurm%{?_isa}')
	rpm -qp --requires "$plugin" 2>/dev/null | grep "^slurm"
	for requirement in "$wanted >= $built" "$wanted < $after"; do
		rpm -qp --requires "$plugin" 2>/dev/null | grep -qxF "$requirement" || { echo "does not require $requirement"; return 1; }
	done
	[ "$(rpm -qp --configfiles "$plugin" 2>/dev/null | tr '\n' ' ')" = "/etc/slurm/p4d.conf /etc/slurm/plugstack.conf.d/p4d.conf " ] || return
	find "$folder/rpm/RPMS" -name '*.rpm' -exec rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]' {} + 2>/dev/null >"$folder/modes"
	grep -c '/p4d/.*\.so$' "$folder/modes" && ! grep '/p4d/.*\.so$' "$folder/modes" | grep -v '^-rw-r--r-- root ' &&
		! grep -v '^[-d]rw[x-]r-[x-]r-[x-] root \|^lrwxrwxrwx' "$folder/modes"
}

# The same build with another number, and a sample of p4d.conf that an administrator has not seen.
build_next()
{
	mkdir -p "$folder/next" && rm -f "$folder/next"/*.deb
	cd "$folder/p4d" && rm -f debian/*.debhelper.log debian/files || return
	version=$(dpkg-parsechangelog -S Version)
	version=${version%.*}.$((${version##*.} + 1))
	cp debian/changelog changelog.before && cp etc/p4d.conf p4d.conf.before || return
	sed "1,/^ -- /{s/^p4d ([^)]*)/p4d ($version)/}; /^ -- /q" changelog.before >debian/changelog
	{ echo && cat changelog.before; } >>debian/changelog
	sed -i '1a # The sample of a later release.' etc/p4d.conf
	mkdir -p "$folder/kept" && mv "$folder"/*.deb "$folder/kept"
	DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} noautodbgsym" dpkg-buildpackage -b -nc -us -uc ${profile:+-P"$profile"}
	result=$?
	mv "$folder"/*.deb "$folder/next"
	mv "$folder/kept"/*.deb "$folder"
	mv changelog.before debian/changelog
	mv p4d.conf.before etc/p4d.conf
	[ "$result" = 0 ] && for one in $packages; do
		dpkg --compare-versions "$(dpkg-deb -f "$(package "$one")" Version)" lt \
			"$(dpkg-deb -f "$(echo "$folder/next/${one}"_*.deb)" Version)" || return
	done
}

package() { echo "$folder/$1"_*.deb; }
packages="p4d slurm-wlm-p4d-plugin p4d-rehearsal p4d-doc libp4d0 libp4d-dev"
[ "$profile" = pkg.p4d.notrain ] || packages="$packages p4d-train"

# holds PACKAGE PATTERN...: its files are these, each at least once, and no others
holds()
{
	dpkg-deb -c "$(package "$1")" | sed -n 's/ -> .*//; s,^[-l].* \./,,p' | grep -v "^usr/share/doc/$1/\|^usr/share/lintian/" | sort >"$folder/files"
	shift
	for pattern in "$@"; do
		grep -qxE "$pattern" "$folder/files" || { echo "no $pattern in:"; cat "$folder/files"; return 1; }
	done
	! grep -vxE "$(IFS='|'; echo "$*")" "$folder/files"
}
page() { echo "usr/share/man/man${1##*.}/$1\\.gz"; }
lib='usr/lib/[^/]*/p4d/libp4d-'
# next to Slurm's own; on a host without those, the tests on a cluster check it
plugins=$(find /usr/lib* -name select_cons_tres.so -o -name auth_munge.so | head -1)
[ -z "$plugins" ] || plugins=$(dirname "${plugins#/}")

all_files()
{
	holds p4d usr/bin/p4d "${lib}json.so" "${lib}yaml.so" "${lib}toml.so" "${lib}sentencepiece.so" usr/share/p4d/gpus.json \
		'usr/share/p4d/models/.*\.json' usr/share/p4d/p4d-job.sh "$(page p4d.1)" "$(page p4d-report.1)" "$(page p4d-backtest.1)" "$(page p4d-data.1)" "usr/share/man/man[57]/p4d.*" \
		usr/share/bash-completion/completions/p4d usr/share/fish/vendor_completions.d/p4d.fish usr/share/zsh/vendor-completions/_p4d &&
		holds slurm-wlm-p4d-plugin etc/slurm/p4d.conf etc/slurm/plugstack.conf.d/p4d.conf "${lib}client.so" "${lib}reader.so" usr/share/p4d/grafana.json \
			"${plugins:-usr/lib/.*}/p4d.so" "${plugins:-usr/lib/.*}/job_submit_p4d.so" "$(page p4d-spank.8)" \
			'usr/share/bash-completion/completions/_(sbatch|salloc|srun)' &&
		holds p4d-rehearsal "${lib}rehearsal.so" 'usr/share/p4d/rehearsal/.*\.py' "$(page p4d-rehearse.1)" &&
		holds libp4d0 'usr/lib/[^/]*/libp4d\.so\.0' 'usr/lib/[^/]*/libp4d\.so\.0\..*' &&
		holds libp4d-dev usr/include/p4d.h 'usr/lib/[^/]*/libp4d\.so' 'usr/lib/[^/]*/pkgconfig/p4d.pc' "$(page p4d.3)" &&
		holds p4d-doc 'usr/share/doc/p4d/.*' || return
	[ "$profile" = pkg.p4d.notrain ] || holds p4d-train usr/bin/p4d-train "$(page p4d-train.1)" \
		usr/share/bash-completion/completions/p4d-train usr/share/fish/vendor_completions.d/p4d-train.fish usr/share/zsh/vendor-completions/_p4d-train ${P4D_CUDA:+"${lib}cuda.so"}
}

# What Slurm and p4d open is not for running; all is root's.
modes()
{
	for one in $packages; do
		dpkg-deb -c "$(package "$one")"
	done >"$folder/modes"
	! grep '^-.*\.so[.0-9]*$' "$folder/modes" | grep -v '^-rw-r--r-- root/root ' &&
		! grep -v '^[-dl]rw[x-]r-[x-]r-[x-] root/root \|^lrwxrwxrwx' "$folder/modes"
}

# The release in Slurm's headers, read as configure does.
slurm_release()
{
	built=$(sed -n 's/.*slurm plugins  *yes (Slurm \([0-9]*\.[0-9]*\)\..*/\1/p' "$folder/p4d/build-debian/config.log" | tail -1)
	depends=$(dpkg-deb -f "$(package slurm-wlm-p4d-plugin)" Depends)
	after=$(printf '%s.%02d' "${built%.*}" "$((10#${built#*.} + 1))")
	echo "Slurm $built: $depends"
	[ -n "$built" ] && [[ $depends == *"slurm-wlm-basic-plugins (>= $built), slurm-wlm-basic-plugins (<< $after~)"* ]] &&
		[[ $(dpkg-deb -f "$(package slurm-wlm-p4d-plugin)" Version) == *"+slurm$built" ]]
}

conffiles()
{
	[ "$(dpkg-deb -I "$(package slurm-wlm-p4d-plugin)" conffiles | sort | tr '\n' ' ')" = \
		"/etc/slurm/p4d.conf /etc/slurm/plugstack.conf.d/p4d.conf " ]
}

without_errors()
{
	# shellcheck disable=SC2046 # packages
	lintian --fail-on error --tag-display-limit 0 $(for one in $packages; do package "$one"; done)
}

root=$folder/root
in_root() { dpkg --root="$root" --force-not-root --force-depends --force-script-chrootless --log="$folder/dpkg.log" "$@"; }
in_new_root()
{
	rm -rf --one-file-system "${root:?}"
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
	: >"$root/var/lib/dpkg/status"
	# shellcheck disable=SC2046 # packages
	in_root -i $(for one in $packages; do package "$one"; done)
}

# Nothing loads a plugin that was just installed; the command works.
installs()
{
	in_new_root || return
	! grep -v '^#' "$root/etc/slurm/plugstack.conf.d/p4d.conf" || return
	P4D_DATADIR=$root/usr/share/p4d SLURM_CONF=/nonexistent "$root/usr/bin/p4d" conf "$root/etc/slurm/p4d.conf" &&
		P4D_DATADIR=$root/usr/share/p4d SLURM_CONF=/nonexistent "$root/usr/bin/p4d" models llama3-8b | grep -q '^llama3-8b '
}

# Removing says what still names the plugins; purging leaves no file.
removes()
{
	in_new_root || return
	printf 'ClusterName=c\nJobSubmitPlugins=lua,p4d\n' >"$root/etc/slurm/slurm.conf"
	sed -i 's/^#optional/optional/' "$root/etc/slurm/plugstack.conf.d/p4d.conf"
	said=$(in_root -r slurm-wlm-p4d-plugin 2>&1) || return
	echo "$said"
	[[ $said == *"slurmctld will not start"* ]] && [[ $said == *"plugstack.conf loads p4d.so"* ]] &&
		[ -f "$root/etc/slurm/p4d.conf" ] || return
	mkdir -p "$root/var/lib/slurm/slurmctld"
	echo >"$root/var/lib/slurm/slurmctld/p4d.conf.good"
	# shellcheck disable=SC2086 # packages
	in_root -P $packages || return
	rm "$root/etc/slurm/slurm.conf"
	! find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print | grep .
}

test_that build build
if [ "$failed" = 0 ]; then
	test_that files all_files
	test_that modes modes
	test_that slurm-release slurm_release
	test_that conffiles conffiles
	if command -v lintian >/dev/null; then
		test_that lintian without_errors
	else
		echo "skip  packages/lintian: lintian is not installed"
	fi
	test_that install installs
	test_that purge removes
	[ -z "$next" ] || test_that next-version build_next
	[ -z "$twice$rpm" ] || test_that tarball tarball
	[ -z "$twice" ] || { test_that reproducible build_elsewhere && test_that reproducible-tarball tarball_elsewhere; }
	if [ -n "$rpm" ] && command -v rpmbuild >/dev/null; then
		test_that rpm rpms
		test_that rpm-contents rpm_contents
	elif [ -n "$rpm" ]; then
		echo "skip  packages/rpm: rpmbuild is not installed"
	fi
fi
exit "$failed"
