# SPDX-License-Identifier: Apache-2.0
# P4D_ZLIB: what expands jobstats' records in AdminComment, for `p4d report`.
AC_DEFUN([P4D_ZLIB], [
	PKG_CHECK_MODULES([ZLIB], [zlib >= 1.2],
		[p4d_zlib=yes
		 p4d_zlib_report="yes (zlib `$PKG_CONFIG --modversion zlib`)"
		 AC_DEFINE([HAVE_ZLIB], [1], [Define to 1 if zlib is there.])],
		[p4d_zlib=no
		 p4d_zlib_report="no (zlib not found, so that p4d report leaves them out: apt-get install zlib1g-dev)"])
])
