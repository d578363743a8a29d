# SPDX-License-Identifier: Apache-2.0
# P4D_CXX: tests of the cuda device compile its kernels for the host, which takes a C++ compiler.
AC_DEFUN([P4D_CXX], [
	AC_LANG_PUSH([C++])
	AC_CACHE_CHECK([whether the C++ compiler works], [p4d_cv_cxx],
		[AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <functional>]],
				[[std::function<int(void)> zero = [] { return 0; }; return zero();]])],
			[p4d_cv_cxx=yes], [p4d_cv_cxx=no])])
	AC_LANG_POP([C++])
	AM_CONDITIONAL([HAVE_CXX], [test "x$p4d_cv_cxx" = xyes])
])
