# SPDX-License-Identifier: Apache-2.0
# P4D_HARDENING: options of compiler and linker against the exploitation of bugs; --disable-hardening leaves them out.
# CFLAGS, CPPFLAGS and LDFLAGS come later on the command line, so that those of a distribution take precedence.
# P4D_PROTECTIONS lists what is in effect, for tests/house/test_hardening.sh.
AC_DEFUN([P4D_HARDENING], [
	AC_ARG_ENABLE([hardening],
		[AS_HELP_STRING([--disable-hardening], [without stack protector, _FORTIFY_SOURCE, RELRO, PIE and the like])])
	P4D_PROTECTIONS=
	# sanitizers find more without
	AS_IF([test "x$enable_hardening" != xno && test "x$enable_sanitizers" != xyes], [
		P4D_HARDEN([canary], [-fstack-protector-strong])
		P4D_HARDEN([clash], [-fstack-clash-protection])
		P4D_HARDEN([cet], [-fcf-protection])
		P4D_HARDEN([bti], [-mbranch-protection=standard])
		P4D_FORTIFY
		P4D_PIE
		AX_CHECK_LINK_FLAG([-Wl,-z,relro -Wl,-z,now], [
			P4D_LDFLAGS="$P4D_LDFLAGS -Wl,-z,relro -Wl,-z,now"
			P4D_PROTECTIONS="$P4D_PROTECTIONS relro now"])])
	AS_IF([test -n "$P4D_PROTECTIONS"],
		[p4d_hardening_report="yes ($P4D_PROTECTIONS )"], [p4d_hardening_report=no])
	AC_SUBST([P4D_PROTECTIONS])
	AC_SUBST([P4D_PROGRAM_LDFLAGS])
])

# P4D_HARDEN(NAME, FLAG)
AC_DEFUN([P4D_HARDEN], [
	AX_CHECK_COMPILE_FLAG([$2], [
		P4D_CFLAGS="$P4D_CFLAGS $2"
		P4D_PROTECTIONS="$P4D_PROTECTIONS $1"], [], [-Werror])
])

# Level 3 if compiler and libc support it. It needs optimization, and does not replace a level that is set already.
AC_DEFUN([P4D_FORTIFY], [
	p4d_fortify=
	p4d_save_CFLAGS=$CFLAGS
	for p4d_level in 3 2; do
		AC_MSG_CHECKING([for _FORTIFY_SOURCE=$p4d_level])
		CFLAGS="$p4d_save_CFLAGS -Werror -D_FORTIFY_SOURCE=$p4d_level"
		AS_IF([test -z "$p4d_fortify"], [
			AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
				@%:@include <string.h>
				@%:@ifndef __OPTIMIZE__
				@%:@error
				@%:@endif
				]], [[]])],
				[p4d_fortify=$p4d_level])])
		AC_MSG_RESULT([${p4d_fortify:-no}])
		AS_IF([test -n "$p4d_fortify"], [break])
	done
	CFLAGS=$p4d_save_CFLAGS
	AS_IF([test -n "$p4d_fortify"], [
		P4D_CFLAGS="$P4D_CFLAGS -D_FORTIFY_SOURCE=$p4d_fortify"
		P4D_PROTECTIONS="$P4D_PROTECTIONS fortify"])
])

AC_DEFUN([P4D_PIE], [
	AC_CACHE_CHECK([whether programs are position-independent by default], [p4d_cv_pie],
		[AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
			@%:@ifndef __PIE__
			@%:@error
			@%:@endif
			]], [[]])], [p4d_cv_pie=yes], [p4d_cv_pie=no])])
	AS_IF([test "x$p4d_cv_pie" = xyes],
		[P4D_PROTECTIONS="$P4D_PROTECTIONS pie"],
		[AX_CHECK_LINK_FLAG([-fPIE -pie], [
			P4D_CFLAGS="$P4D_CFLAGS -fPIE"
			P4D_PROGRAM_LDFLAGS=-pie
			P4D_PROTECTIONS="$P4D_PROTECTIONS pie"])])
])
