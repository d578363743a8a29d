/* SPDX-License-Identifier: Apache-2.0 */
/* All kernels, for the host. */
#include "doubles/cuda/shim.h"

#include "device/cuda/reduce.cu"
#include "device/cuda/elements.cu"
#include "device/cuda/rmsnorm.cu"
#include "device/cuda/split_norm.cu"
#include "device/cuda/bias.cu"
#include "device/cuda/rope.cu"
#include "device/cuda/swiglu.cu"
#include "device/cuda/embedding.cu"
#include "device/cuda/cross_entropy.cu"
#include "device/cuda/adamw.cu"
#include "device/cuda/attention_forward.cu"
#include "device/cuda/attention_backward.cu"
#include "device/cuda/attention_merge.cu"
#include "device/cuda/quantize.cu"
#include "device/cuda/nf4.cu"
