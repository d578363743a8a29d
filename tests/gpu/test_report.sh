#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No kernel spills but those of p4d's own attention, all access 16 bytes at a time where rows allow, and move few bytes more than
# they must: make gpu-report. A kernel that does not is named. For one architecture, P4D_TEST_ALL: for three.
set -eu
cd "$P4D_TEST_BUILDDIR"
[ -e .libs/libp4d-cuda.so ] || { echo "built without CUDA"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/p4d-report.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
fail() { echo "FAILED: $*" >&2; exit 1; }

nvcc=$(sed -n 's/^NVCC = //p' Makefile)
flags="-std=c++17 -O3 -I$P4D_TEST_SRCDIR/estimator -I$P4D_TEST_SRCDIR/runtime"
# report NAME FILE...: leaves what it printed in the file NAME
report()
{
	name=$1 status=0
	shift
	"$P4D_TEST_SRCDIR/tests/gpu/report" tests/runtime/device/test_cuda_traffic "$nvcc $flags" "$@" >"$work/$name" 2>&1 || status=$?
}

# one that spills, one that has half vectors, one that nobody has heard of
cat >"$work/poor.cu" <<'EOS'
#include "device/cuda/elements.h"
template <typename E, int W> __global__ void __launch_bounds__(1024, 2) swiglu_rows(float *y, const float *x)
{
	float a[80];
	for (int i = 0; i < 80; i++)
		a[i] = x[i * 7 + threadIdx.x];
	__syncthreads();
	for (int i = 0; i < 80; i++)
		y[i * 7 + threadIdx.x] = a[79 - i] * a[i];
}
template <typename E, int W> __global__ void norm_rows(float *y, const float *x)
{
	p4d_store(y + 2 * threadIdx.x, p4d_load<2>(x + 2 * threadIdx.x));
}
__global__ void unheard(float *y)
{
	y[threadIdx.x] = 1;
}
template __global__ void swiglu_rows<float, 1>(float *, const float *);
template __global__ void norm_rows<float, 4>(float *, const float *);
EOS
P4D_REPORT_ARCHITECTURES=90 report poor "$work/poor.cu"
grep -q 'FAULT: swiglu_rows<float,1> spills' "$work/poor" || fail "spills are not found: $(cat "$work/poor")"
grep -q 'FAULT: unheard is of no kind' "$work/poor" || fail "a kernel of no kind is not found: $(cat "$work/poor")"
[ "$status" = 1 ] || fail "faults end with $status"

# compiles for a minute, and without nvdisasm half of the answers are missing
[ -n "${P4D_TEST_ALL:-}${NVDISASM:-}" ] || PATH=$PATH:$(dirname "${nvcc%% *}") command -v nvdisasm >/dev/null ||
	{ echo "no nvdisasm (of the CUDA toolkit, or pip install nvidia-cuda-nvdisasm); P4D_TEST_ALL=1 compiles all kernels"; exit 77; }
[ -n "${P4D_TEST_ALL:-}" ] || export P4D_REPORT_ARCHITECTURES=90
# shellcheck disable=SC2046 # a list of files
report all $(sed -n 's/^#include "\(.*\.cu\)"$/\1/p' "$P4D_TEST_SRCDIR/tests/doubles/cuda/shim_kernels.cc" |
	sed "s|^|$P4D_TEST_SRCDIR/runtime/|")
[ "$status" = 0 ] || [ "$status" = 77 ] || fail "$(grep -E 'FAULT|error' "$work/all" || cat "$work/all")"
[ "$(grep -c '^[a-z_0-9]*<' "$work/all")" -ge 80 ] || fail "kernels are missing: $(cat "$work/all")"
[ "$status" = 0 ] || { tail -1 "$work/all"; exit 77; }
grep -q 'FAULT: norm_rows<float,4> has narrow accesses' "$work/poor" || fail "half vectors are not found: $(cat "$work/poor")"
