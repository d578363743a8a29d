# SPDX-License-Identifier: Apache-2.0
# P4D_SLURM: finds Slurm's public headers and its plugin directory (Slurm ships no .pc file).
#   --with-slurm=DIR             headers in DIR/include/slurm, plugins in DIR/lib/slurm
#   --without-slurm              builds the estimator and the command only
#   --with-slurm-plugindir=DIR   where p4d.so and job_submit_p4d.so are installed
# Without the last one they go where Slurm looks for plugins, unless --prefix says that this is an installation apart;
# then they go below the prefix, and PluginDir in slurm.conf has to name that directory too. It is an error if that place is
# not known: slurmctld does not start with a plugin that it does not find.
AC_DEFUN([P4D_SLURM], [
	AC_ARG_WITH([slurm],
		[AS_HELP_STRING([--with-slurm=DIR], [where Slurm is installed; --without-slurm: no plugins])],
		[], [with_slurm=check])
	AC_ARG_WITH([slurm-plugindir],
		[AS_HELP_STRING([--with-slurm-plugindir=DIR], [where the plugins are installed])],
		[], [with_slurm_plugindir=])
	AS_CASE([$with_slurm],
		[no], [p4d_slurm=no; p4d_slurm_report="no (--without-slurm)"],
		[yes|check], [P4D_SLURM_FIND([/usr])],
		[P4D_SLURM_FIND([$with_slurm])])
	AS_IF([test "x$p4d_slurm" = xno && test "x$with_slurm" != xno && test "x$with_slurm" != xcheck],
		[AC_MSG_ERROR([--with-slurm was given, but: $p4d_slurm_report])])
	AC_SUBST([slurmplugindir])
	AC_SUBST([SLURM_CPPFLAGS])
	AC_SUBST([SLURM_LIBS])
	AM_CONDITIONAL([HAVE_SLURM], [test "x$p4d_slurm" = xyes])
])

# P4D_SLURM_FIND(PREFIX)
AC_DEFUN([P4D_SLURM_FIND], [
	SLURM_LIBS=-lslurm
	AS_IF([test "$1" != /usr], [
		SLURM_CPPFLAGS="-isystem $1/include"
		SLURM_LIBS="-L$1/lib -Wl,-rpath,$1/lib -lslurm"])
	p4d_save_CPPFLAGS=$CPPFLAGS
	CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
	AC_CHECK_HEADERS([slurm/spank.h], [p4d_slurm=yes], [p4d_slurm=no], [[#include <stddef.h>]])
	# The compiler may have found another Slurm's header than that of the directory that was named.
	AS_IF([test "x$with_slurm" = "x$1" && test ! -f "$1/include/slurm/spank.h"], [p4d_slurm=no])
	AS_IF([test "x$p4d_slurm" = xno],
		[p4d_slurm_report="no (slurm/spank.h not found: apt-get install libslurm-dev, or --with-slurm=DIR)"],
		[P4D_SLURM_VERSION
		 P4D_SLURM_PLUGINDIR([$1])
		 p4d_slurm_report="yes (Slurm $p4d_slurm_version, to $slurmplugindir)"])
	CPPFLAGS=$p4d_save_CPPFLAGS
])

# The release whose headers these are; the plugins load into that release only.
AC_DEFUN([P4D_SLURM_VERSION], [
	for p4d_part in 16 8 0; do
		AC_COMPUTE_INT([p4d_number], [(SLURM_VERSION_NUMBER >> $p4d_part) & 0xff],
			[[#include <slurm/slurm_version.h>]],
			[AC_MSG_ERROR([slurm/slurm_version.h does not say which release it is])])
		AS_CASE([$p4d_part],
			[16], [p4d_slurm_version=$p4d_number],
			[8], [p4d_slurm_version=$p4d_slurm_version.`printf %02d $p4d_number`],
			[p4d_slurm_version=$p4d_slurm_version.$p4d_number])
	done
])

# P4D_SLURM_PLUGINDIR(PREFIX): where Slurm looks for plugins. libslurm knows: the directory that it was built with is one of
# its strings, on a machine without daemons too. Otherwise it is where plugins are: Debian keeps them in slurm-wlm, Slurm's own
# packages in slurm.
AC_DEFUN([P4D_SLURM_PLUGINDIR], [
	AC_MSG_CHECKING([where Slurm looks for plugins])
	P4D_SLURM_BUILT_IN([$1])
	for p4d_dir in $p4d_slurm_built_in "$1"/lib/*/slurm-wlm "$1"/lib64/slurm "$1"/lib/slurm "$1"/lib/*/slurm; do
		AS_IF([test -z "$p4d_slurm_found" && test -d "$p4d_dir"], [p4d_slurm_found=$p4d_dir])
	done
	AS_IF([test -n "$with_slurm_plugindir"], [slurmplugindir=$with_slurm_plugindir],
		[AS_CASE([$with_slurm:$prefix],
			[yes:NONE|check:NONE|yes:/usr|check:/usr|/*], [slurmplugindir=$p4d_slurm_found],
			[slurmplugindir='${libdir}/'`basename "${p4d_slurm_found:-slurm}"`])])
	AC_MSG_RESULT([${slurmplugindir:-unknown}])
	AS_IF([test -z "$slurmplugindir"],
		[AC_MSG_ERROR([cannot tell where this Slurm looks for plugins: name the directory with --with-slurm-plugindir=DIR
(scontrol show config | grep PluginDir), or leave the plugins out with --without-slurm])])
	# Slurm's plugins use symbols that libslurm lacks (cred/none of 24.11: get_log_level): Slurm's own programs link this.
	AS_IF([test -f "$p4d_slurm_found/libslurmfull.so"],
		[SLURM_LIBS="-L$p4d_slurm_found -Wl,-rpath,$p4d_slurm_found -lslurmfull"])
])

# P4D_SLURM_BUILT_IN(PREFIX): p4d_slurm_built_in: directories in libslurm's strings that may hold its plugins, a line each;
# p4d_slurm_found: the only one of them, which need not exist here.
AC_DEFUN([P4D_SLURM_BUILT_IN], [
	p4d_slurm_found=
	p4d_slurm_built_in=
	p4d_library=
	for p4d_dir in "$1/lib64" "$1/lib"; do
		AS_IF([test "$1" != /usr && test -z "$p4d_library" && test -f "$p4d_dir/libslurm.so"],
			[p4d_library=$p4d_dir/libslurm.so])
	done
	AS_IF([test "$1" = /usr], [p4d_library=`$CC $CFLAGS $LDFLAGS -print-file-name=libslurm.so 2>/dev/null`])
	AS_IF([test -n "$p4d_library" && test -f "$p4d_library"],
		[p4d_slurm_built_in=`LC_ALL=C tr '\000' '\n' <"$p4d_library" | LC_ALL=C grep -a '^/' |
			LC_ALL=C grep -aE '^[[A-Za-z0-9_./+-]]*/lib[[^/]]*/([[^/]]+/)*slurm[[^/.]]*$' | grep -v '^/var/' | sort -u`])
	AS_CASE([$p4d_slurm_built_in], [''|*"
"*], [], [p4d_slurm_found=$p4d_slurm_built_in])
])
