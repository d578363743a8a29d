# SPDX-License-Identifier: Apache-2.0
# P4D_LIBRARY(VARIABLE, MODULE, DEBIAN-PACKAGE): a library nothing works without.
AC_DEFUN([P4D_LIBRARY], [
	PKG_CHECK_MODULES([$1], [$2], [],
		[AC_MSG_ERROR([p4d needs $2 (Debian: apt-get install $3): $[]$1[]_PKG_ERRORS])])
])
