#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that run on GPUs, and the runtime in them, touch the GPU's memory only through the device: the shim's memory is closed
# to all else here, as it is on a GPU.
set -eu
cd "$P4D_TEST_BUILDDIR/tests/runtime/device"
fail() { echo "FAILED: $*" >&2; exit 1; }

[ -x test_cuda_kernels ] || { echo "built without C++ or OpenBLAS"; exit 77; }
# of many cases a part is enough: what matters is which memory they touch
export P4D_SHIM_GUARD=1 P4D_TEST_FEW=1
unset P4D_TEST_ALL
for test in types llama kernels fp8 attention trainer; do
	"./test_cuda_$test" || fail "test_cuda_$test"
done
