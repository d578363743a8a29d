# SPDX-License-Identifier: Apache-2.0
# P4D_CMOCKA: unit tests need cmocka; without it `make check` says so and runs the rest.
AC_DEFUN([P4D_CMOCKA], [
	PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1],
		[p4d_cmocka=yes
		 p4d_cmocka_report="yes (cmocka `$PKG_CONFIG --modversion cmocka`)"],
		[p4d_cmocka=no
		 p4d_cmocka_report="no (cmocka not found: apt-get install libcmocka-dev)"])
	AM_CONDITIONAL([HAVE_CMOCKA], [test "x$p4d_cmocka" = xyes])
])
