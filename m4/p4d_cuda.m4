# SPDX-License-Identifier: Apache-2.0
# P4D_CUDA: finds CUDA for the device `cuda` of p4d-train. It is compiled and linked without a GPU.
#   --with-cuda=DIR                   nvcc in DIR/bin, headers in DIR/include, libraries in DIR/lib64 or DIR/lib
#   --without-cuda                    p4d-train trains on CPUs only
#   --with-cuda-architectures=LIST    what to compile for: "90 100", or all: those of p4d_all_architectures that nvcc knows.
#                                     Without it the first GPU of this machine, or 90 where there is none
# Without p4d-train there is nothing to compile. Without the first, CUDA_HOME, where nvcc is, and /usr/local/cuda are tried.
AC_DEFUN([P4D_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda=DIR], [where CUDA is installed; --without-cuda: no GPUs])],
		[], [with_cuda=check])
	AC_ARG_WITH([cuda-architectures],
		[AS_HELP_STRING([--with-cuda-architectures=LIST],
			[compute capabilities to compile for: "90 100"; all, for packages; default: that of the GPU here, or 90])],
		[], [with_cuda_architectures=])
	AC_ARG_VAR([CUDA_HOME], [where CUDA is installed])
	p4d_cuda=no
	AS_CASE([$with_cuda,$p4d_openblas],
		[no,*], [p4d_cuda_report="no (--without-cuda)"],
		[*,no], [p4d_cuda_report="no (p4d-train is not built)"],
		[yes,*|check,*], [
			AC_PATH_PROG([p4d_nvcc], [nvcc])
			for p4d_dir in "$CUDA_HOME" "${p4d_nvcc%/bin/nvcc}" /usr/local/cuda; do
				AS_IF([test -n "$p4d_dir" && test "x$p4d_cuda" = xno], [P4D_CUDA_FIND([$p4d_dir])])
			done],
		[P4D_CUDA_FIND([$with_cuda])])
	AS_IF([test "x$p4d_cuda" = xno && test "x$with_cuda" != xno && test "x$with_cuda" != xcheck],
		[AC_MSG_ERROR([--with-cuda was given, but: $p4d_cuda_report])])
	p4d_cudnn=0
	AS_IF([test "x$p4d_cuda" = xyes], [P4D_CUDA_CUDNN P4D_CUDA_ARCHITECTURES])
	AM_CONDITIONAL([HAVE_CUDA], [test "x$p4d_cuda" = xyes])
	AM_CONDITIONAL([HAVE_CUDNN], [test "$p4d_cudnn" -gt 0])
])

# P4D_CUDA_FIND(DIR)
AC_DEFUN([P4D_CUDA_FIND], [
	AC_MSG_CHECKING([for CUDA in $1])
	p4d_missing=
	CUDA_LIBDIR=$1/lib64
	AS_IF([test ! -d "$CUDA_LIBDIR"], [CUDA_LIBDIR=$1/lib])
	for p4d_file in "$1/bin/nvcc" "$1/include/cuda_runtime_api.h" "$1/include/cublasLt.h" \
		"$CUDA_LIBDIR/libcublasLt.so" "$CUDA_LIBDIR/libcudart_static.a"; do
		AS_IF([test -z "$p4d_missing" && test ! -f "$p4d_file"], [p4d_missing=$p4d_file])
	done
	AS_IF([test -z "$p4d_missing"], [
		NVCC=$1/bin/nvcc
		CUDA_INCLUDES=$1/include
		p4d_cuda_version=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \([[0-9.]]*\),.*/\1/p'`
		AS_IF([test -z "$p4d_cuda_version"], [p4d_missing="a working $NVCC"])])
	AS_IF([test -z "$p4d_missing"],
		[p4d_cuda=yes
		 AC_MSG_RESULT([$p4d_cuda_version])],
		[p4d_cuda_report="no ($p4d_missing not found: --with-cuda=DIR)"
		 AC_MSG_RESULT([no: $p4d_missing not found])])
	AC_SUBST([NVCC])
	AC_SUBST([CUDA_INCLUDES])
	AC_SUBST([CUDA_LIBDIR])
])

# Fast attention is cuDNN's. Its headers are enough: the library is opened at run time.
AC_DEFUN([P4D_CUDA_CUDNN], [
	AC_MSG_CHECKING([for cudnn.h of cuDNN 9.8 or later])
	p4d_cppflags=$CPPFLAGS
	CPPFLAGS="$CPPFLAGS -I$CUDA_INCLUDES"
	AC_COMPUTE_INT([p4d_cudnn], [CUDNN_VERSION >= 90800 && CUDNN_VERSION < 100000 ? CUDNN_VERSION : 0],
		[@%:@include <cudnn.h>], [p4d_cudnn=0])
	CPPFLAGS=$p4d_cppflags
	AS_IF([test "$p4d_cudnn" -gt 0],
		[p4d_cudnn_report="cuDNN `expr $p4d_cudnn / 10000`.`expr $p4d_cudnn / 100 % 100`.`expr $p4d_cudnn % 100`"],
		[p4d_cudnn_report="no cudnn.h: slow attention"])
	AC_MSG_RESULT([$p4d_cudnn_report])
])

# Machine code for each architecture that this nvcc knows, and the oldest as PTX, which any newer GPU's driver compiles.
AC_DEFUN([P4D_CUDA_ARCHITECTURES], [
	p4d_all_architectures="80 90 100 120"
	p4d_known=" "`"$NVCC" --list-gpu-code | tr '\n' ' '`" "
	AS_CASE([$with_cuda_architectures],
		[all], [with_cuda_architectures=$p4d_all_architectures],
		[''], [
			with_cuda_architectures=`nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
				sed -n '1s/^\([[0-9]]*\)\.\([[0-9]]\)$/\1\2/p'`
			# a GPU that this nvcc does not know gets what it does know, and its driver compiles the PTX
			AS_CASE(["$p4d_known"], [*" sm_${with_cuda_architectures:-none} "*], [],
				[AS_IF([test -n "$with_cuda_architectures"],
					[with_cuda_architectures=$p4d_all_architectures], [with_cuda_architectures=90])])])
	for p4d_one in `AS_ECHO(["$with_cuda_architectures"]) | tr , ' '`; do
		AS_CASE(["$p4d_known"],
			[*" sm_${p4d_one%[[af]]} "*], [
				CUDA_ARCHITECTURES="$CUDA_ARCHITECTURES $p4d_one"
				CUDA_GENCODE="$CUDA_GENCODE -gencode=arch=compute_$p4d_one,code=sm_$p4d_one"
				AS_CASE([$p4d_one],
					[*a|*f], [],
					[test -z "$p4d_oldest" && p4d_oldest=$p4d_one])])
	done
	AS_IF([test -n "$p4d_oldest"],
		[CUDA_GENCODE="$CUDA_GENCODE -gencode=arch=compute_$p4d_oldest,code=compute_$p4d_oldest"])
	CUDA_ARCHITECTURES=`AS_ECHO(["$CUDA_ARCHITECTURES"]) | sed 's/^ //'`
	AS_IF([test -z "$CUDA_ARCHITECTURES"],
		[AC_MSG_ERROR([this nvcc knows none of "$with_cuda_architectures":$p4d_known])])
	p4d_cuda_report="yes (CUDA $p4d_cuda_version, sm $CUDA_ARCHITECTURES, $p4d_cudnn_report)"
	AC_SUBST([CUDA_ARCHITECTURES])
	AC_SUBST([CUDA_GENCODE])
])
