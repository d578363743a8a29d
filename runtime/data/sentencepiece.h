/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A C interface to libsentencepiece, in libp4d-sentencepiece.so. p4d loads it only if it needs a model,
 * because loading takes longer than most commands. No C++ exception leaves these functions. On failure
 * functions return NULL, with the reason in why[size].
 */
typedef struct p4d_sentencepiece {
	/* *pieces: size of the vocabulary; *end: the end-of-sentence piece, -1 if the model has none */
	void *(*open)(const char *path, int32_t *pieces, int32_t *end, char *why, size_t size);
	/* the tokens are valid until the next call with this model; never NULL on success */
	const int32_t *(*encode)(void *model, const char *text, size_t length, size_t *count, char *why,
				 size_t size);
	int32_t (*token)(void *model, const char *name); /* token of a piece; -1: there is no such piece */
	/* the piece as the model writes it, NUL-terminated, lives as long as the model */
	const char *(*piece)(void *model, int32_t token);
	void (*close)(void *model);
} p4d_sentencepiece;

/* The one symbol of libp4d-sentencepiece.so. */
extern const p4d_sentencepiece p4d_sentencepiece__calls;

#ifdef __cplusplus
}
#endif
