/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_TOKENIZER_SENTENCEPIECE_H
#define P4D_TOKENIZER_SENTENCEPIECE_H

#include <stddef.h>
#include <stdint.h>

/* libsentencepiece, which is C++, for C. On failure NULL, and why[size] says why. No exception gets out. */
#ifdef __cplusplus
extern "C" {
#endif

/* *pieces: size of the vocabulary; *end: the end-of-sentence piece, -1 when the model has none. */
void *p4d_sentencepiece_open(const char *path, int32_t *pieces, int32_t *end, char *why, size_t size);
/* The tokens live until the next call with this model. Never NULL on success. */
const int32_t *p4d_sentencepiece_encode(void *model, const char *text, size_t length, size_t *count,
					char *why, size_t size);
void p4d_sentencepiece_close(void *model);

#ifdef __cplusplus
}
#endif

#endif
