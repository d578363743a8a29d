# SPDX-License-Identifier: Apache-2.0
# P4D_COMPILER_FLAGS: C11, the warnings of the house, --enable-werror, --enable-sanitizers.
AC_DEFUN([P4D_COMPILER_FLAGS], [
	AX_APPEND_COMPILE_FLAGS([-std=gnu11 -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes \
		-Wmissing-prototypes -Wundef], [P4D_CFLAGS], [-Werror])

	AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [turn warnings into errors])])
	AS_IF([test "x$enable_werror" = xyes], [AX_APPEND_COMPILE_FLAGS([-Werror], [P4D_CFLAGS])])

	AC_ARG_ENABLE([sanitizers],
		[AS_HELP_STRING([--enable-sanitizers], [build with the address and undefined-behaviour sanitizers])])
	AS_IF([test "x$enable_sanitizers" = xyes], [
		AX_APPEND_COMPILE_FLAGS([-fsanitize=address,undefined -fno-sanitize-recover=all \
			-fno-omit-frame-pointer], [P4D_CFLAGS])
		AX_APPEND_LINK_FLAGS([-fsanitize=address,undefined], [P4D_LDFLAGS])])

	P4D_HARDENING

	# what there is of C++ (one shim) gets those that are not about C
	P4D_CXXFLAGS=`AS_ECHO(["$P4D_CFLAGS"]) | sed 's/-std=gnu11/-std=gnu++17/; s/-Wstrict-prototypes//; s/-Wmissing-prototypes//'`

	AC_SUBST([P4D_CFLAGS])
	AC_SUBST([P4D_CXXFLAGS])
	AC_SUBST([P4D_LDFLAGS])
])
