# SPDX-License-Identifier: Apache-2.0
# P4D_SCDOC: manual pages are rendered by scdoc.
AC_DEFUN([P4D_SCDOC], [
	AC_ARG_VAR([SCDOC], [scdoc, renders the manual pages])
	AC_CHECK_PROG([SCDOC], [scdoc], [scdoc])
	AS_IF([test -n "$SCDOC"],
		[p4d_scdoc_report="yes ($SCDOC)"],
		[p4d_scdoc_report="no (scdoc not found: apt-get install scdoc)"])
	AM_CONDITIONAL([HAVE_SCDOC], [test -n "$SCDOC"])
])
