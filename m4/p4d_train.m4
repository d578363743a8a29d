# SPDX-License-Identifier: Apache-2.0
# P4D_TRAIN: what p4d-train needs besides libp4d. Checkpoints carry checksums of libxxhash; training on CPUs multiplies with
# OpenBLAS. Without the first there is neither a runtime nor `p4d export` (HAVE_XXHASH), without the second no cpu device (HAVE_OPENBLAS); without
# either p4d-train is not built.
#   TRAIN_CFLAGS   what lets loops marked `omp simd` use vector registers; nothing that changes results of
#                  comparisons, infinities or NaNs
#   OPENMP_LIBS    the library of its threads, if there is one
AC_DEFUN([P4D_TRAIN], [
	p4d_missing=
	p4d_packages=
	PKG_CHECK_MODULES([XXHASH], [libxxhash >= 0.8],
		[p4d_xxhash=yes
		 AC_DEFINE([HAVE_XXHASH], [1], [Define to 1 if libxxhash is there.])],
		[p4d_xxhash=no; p4d_missing=libxxhash; p4d_packages=libxxhash-dev])
	PKG_CHECK_MODULES([OPENBLAS], [openblas >= 0.3], [p4d_openblas=$p4d_xxhash],
		[p4d_openblas=no
		 p4d_missing="${p4d_missing:+$p4d_missing and }openblas"
		 p4d_packages="${p4d_packages:+$p4d_packages }libopenblas-dev"])
	AS_IF([test "x$p4d_openblas" = xyes],
		[p4d_train_report="yes (on CPUs with OpenBLAS `$PKG_CONFIG --modversion openblas`)"],
		[p4d_train_report="no ($p4d_missing not found: apt-get install $p4d_packages)"])
	AM_CONDITIONAL([HAVE_XXHASH], [test "x$p4d_xxhash" = xyes])
	AM_CONDITIONAL([HAVE_OPENBLAS], [test "x$p4d_openblas" = xyes])
	AX_APPEND_COMPILE_FLAGS([-fopenmp-simd -fno-math-errno -fno-trapping-math], [TRAIN_CFLAGS], [-Werror])
	# Threads of the cpu device: OpenMP if its library is there.
	p4d_flags=$CFLAGS
	p4d_libs=$LIBS
	OPENMP_LIBS=
	for p4d_openmp in gomp omp; do
		CFLAGS="$p4d_flags -fopenmp"
		LIBS="-l$p4d_openmp $p4d_libs"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <omp.h>]],
			[[int all = 0;
			  #pragma omp parallel for reduction(+ : all)
			  for (int i = 0; i < 2; i++)
				all += omp_get_num_threads();
			  return all;]])],
			[OPENMP_LIBS=-l$p4d_openmp; TRAIN_CFLAGS="$TRAIN_CFLAGS -fopenmp"; break])
	done
	CFLAGS=$p4d_flags
	LIBS=$p4d_libs
	AC_SUBST([OPENMP_LIBS])
	# A loop that clang does not vectorize is slower, not wrong.
	AX_CHECK_COMPILE_FLAG([-Wpass-failed], [AX_APPEND_FLAG([-Wno-pass-failed], [TRAIN_CFLAGS])], [], [-Werror])
	AC_CACHE_CHECK([for functions compiled for several instruction sets], [p4d_cv_target_clones],
		[AC_LINK_IFELSE([AC_LANG_PROGRAM(
			[[#ifdef __clang__
			  #error "its callers in other files do not find them"
			  #endif
			  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
			  int twice(int x) { return 2 * x; }]], [[return twice(0);]])],
			[p4d_cv_target_clones=yes], [p4d_cv_target_clones=no])])
	# The sanitizers are not yet there when the loader asks which version to take.
	AS_IF([test "x$p4d_cv_target_clones" = xyes && test "x$enable_sanitizers" != xyes],
		[TRAIN_CFLAGS="$TRAIN_CFLAGS -DHAVE_TARGET_CLONES"])
	AC_SUBST([TRAIN_CFLAGS])
])
