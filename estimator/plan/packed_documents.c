/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/packed_documents.h"

#include "plan/cudnn_workspace.h"
#include "plan/shared_sizes.h"

enum { FEWEST = 4, MOST = 1024 };

uint64_t p4d_packed_documents(const p4d_layout *l, const p4d_gpu *gpu)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const uint64_t length = l->document_len < l->seq_len ? l->document_len : l->seq_len;
	const bool whole = l->cp == 1 && l->slices == 1;
	/* cuDNN computes documents only in layers that have neither a window nor a cap */
	const bool none = (p4d_window_of(l, 0) && !l->architecture->full_attention_every) ||
			  l->architecture->attention_cap > 0;
	uint64_t documents = FEWEST;

	if (!length || none || !gpu || !p4d_on_gpu(l->device) || !whole || z.dtype != P4D_DT_BF16 ||
	    !p4d_attention_takes_documents(gpu->sm, l->seq_len, l->head_dim) ||
	    z.n > INT32_MAX /
		      (z.columns * (z.heads / z.kv_heads))) /* positions of documents are 32-bit numbers */
		return 0;
	/* the last document of a sequence may be padding */
	while (documents < z.n / length + z.batch && documents < MOST)
		documents *= 2;
	return documents;
}
