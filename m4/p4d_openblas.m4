# SPDX-License-Identifier: Apache-2.0
# P4D_OPENBLAS: training on CPUs multiplies with OpenBLAS; without it p4d-train has no cpu device.
#   TRAIN_CFLAGS   what lets loops marked `omp simd` use vector registers; nothing that changes results of
#                  comparisons, infinities or NaNs
AC_DEFUN([P4D_OPENBLAS], [
	PKG_CHECK_MODULES([OPENBLAS], [openblas >= 0.3],
		[p4d_openblas=yes
		 p4d_openblas_report="yes (OpenBLAS `$PKG_CONFIG --modversion openblas`)"],
		[p4d_openblas=no
		 p4d_openblas_report="no (openblas not found: apt-get install libopenblas-dev)"])
	AM_CONDITIONAL([HAVE_OPENBLAS], [test "x$p4d_openblas" = xyes])
	AX_APPEND_COMPILE_FLAGS([-fopenmp-simd -fno-math-errno -fno-trapping-math], [TRAIN_CFLAGS], [-Werror])
	AC_SUBST([TRAIN_CFLAGS])
])
