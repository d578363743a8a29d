# SPDX-License-Identifier: Apache-2.0
# P4D_SCDOC: manual pages are rendered by scdoc (HAVE_SCDOC), or came rendered in a tarball (HAVE_PAGES).
AC_DEFUN([P4D_SCDOC], [
	AC_ARG_VAR([SCDOC], [scdoc, renders the manual pages])
	AC_CHECK_PROG([SCDOC], [scdoc], [scdoc])
	p4d_pages=no
	AS_IF([test -n "$SCDOC"],
		[p4d_scdoc_report="yes ($SCDOC)"],
		[test -f "$srcdir/man/p4d.1"],
		[p4d_pages=yes
		 p4d_scdoc_report="yes (those of the tarball)"],
		[p4d_scdoc_report="no (scdoc not found: apt-get install scdoc)"])
	AM_CONDITIONAL([HAVE_SCDOC], [test -n "$SCDOC"])
	AM_CONDITIONAL([HAVE_PAGES], [test "x$p4d_pages" = xyes])
])
