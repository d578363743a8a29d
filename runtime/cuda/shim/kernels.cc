/* SPDX-License-Identifier: Apache-2.0 */
/* All kernels, for the host. */
#include "../reduce.cu"
#include "../elements.cu"
#include "../norm.cu"
#include "../heads.cu"
#include "../ffn.cu"
#include "../embedding.cu"
#include "../loss.cu"
#include "../optimizer.cu"
#include "../attention_forward.cu"
#include "../attention_backward.cu"
#include "../attention_parts.cu"
