/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The folder of a model in the cache of the Hugging Face hub: models--ORG--NAME/snapshots/REVISION, where
 * refs/main names REVISION. As in the hub's own library, the cache is $HF_HUB_CACHE, $HF_HOME/hub,
 * $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. False: the name is not ORG/NAME, or the cache
 * does not have it.
 */
bool p4d_hub_cache_find(const char *name, char *path, size_t size);
