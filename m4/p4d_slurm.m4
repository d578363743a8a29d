# SPDX-License-Identifier: Apache-2.0
# P4D_SLURM: finds Slurm's public headers and its plugin directory (libslurm-dev has no .pc file).
#   --with-slurm=DIR            headers in DIR/include/slurm; --without-slurm builds the estimator and the command only
#   --with-slurm-plugindir=DIR  where p4d.so and job_submit_p4d.so go; default: Slurm's own directory under the prefix's libdir
AC_DEFUN([P4D_SLURM], [
	AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm=DIR], [Slurm installation; no: do not build the plugins])],
		[], [with_slurm=check])
	AC_ARG_WITH([slurm-plugindir],
		[AS_HELP_STRING([--with-slurm-plugindir=DIR], [where the plugins are installed])], [], [with_slurm_plugindir=])
	p4d_slurm=no
	AS_CASE([$with_slurm],
		[no], [p4d_slurm_report="no (--without-slurm)"],
		[yes|check], [P4D_SLURM_TRY([])],
		[P4D_SLURM_TRY([$with_slurm])])
	AS_IF([test "x$p4d_slurm" = xno && test "x$with_slurm" != xno && test "x$with_slurm" != xcheck],
		[AC_MSG_ERROR([--with-slurm was given but $p4d_slurm_report])])
	AS_IF([test -n "$with_slurm_plugindir"], [slurmplugindir=$with_slurm_plugindir], [slurmplugindir=$p4d_slurm_plugindir])
	AC_SUBST([slurmplugindir])
	AC_SUBST([SLURM_CPPFLAGS])
	AM_CONDITIONAL([HAVE_SLURM], [test "x$p4d_slurm" = xyes])
])

# P4D_SLURM_TRY(PREFIX)
AC_DEFUN([P4D_SLURM_TRY], [
	SLURM_CPPFLAGS=
	AS_IF([test -n "$1"], [SLURM_CPPFLAGS="-I$1/include"])
	p4d_save_CPPFLAGS=$CPPFLAGS
	CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
	AC_CHECK_HEADERS([slurm/spank.h], [p4d_slurm=yes],
		[p4d_slurm_report="no (slurm/spank.h not found: apt-get install libslurm-dev)"],
		[[#include <stddef.h>]])
	CPPFLAGS=$p4d_save_CPPFLAGS
	# Debian keeps plugins in LIBDIR/slurm-wlm, Slurm's own packages in LIBDIR/slurm.
	p4d_slurm_plugindir='${libdir}/slurm'
	AS_IF([test -n "$1"], [p4d_slurm_plugindir="$1/lib/slurm"])
	for p4d_dir in "$1"/lib/slurm /usr/lib/*/slurm-wlm /usr/lib64/slurm /usr/lib/slurm; do
		AS_IF([test -f "$p4d_dir/select_cons_tres.so"], [
			p4d_slurm_found=$p4d_dir
			AS_CASE([$p4d_dir], [*/slurm-wlm], [p4d_slurm_plugindir='${libdir}/slurm-wlm'])
			break])
	done
	AS_IF([test "x$p4d_slurm" = xyes], [p4d_slurm_report="yes (${p4d_slurm_found:-no installed plugins seen})"])
])
