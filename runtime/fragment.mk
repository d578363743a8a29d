# SPDX-License-Identifier: Apache-2.0
# What trains. Training data and tensor files:
runtime_data_sources = \
	runtime/mapping.h runtime/mapping.c runtime/new_file.h runtime/new_file.c \
	runtime/tokens.h runtime/tokens_data.h runtime/tokens.c runtime/tokens_megatron.c runtime/tokens_llmc.c \
	runtime/tokens_writer.h runtime/tokens_writer.c \
	runtime/permutation.h runtime/permutation.c runtime/shuffled.h runtime/shuffled.c \
	runtime/blend.h runtime/blend.c runtime/sampler.h runtime/sampler.c \
	runtime/safetensors.h runtime/safetensors_data.h runtime/safetensors.c runtime/safetensors_header.c \
	runtime/safetensors_writer.c
# Checkpoints:
runtime_checkpoint_sources = \
	runtime/checkpoint.h runtime/checkpoint_data.h runtime/checkpoint_files.c runtime/checkpoint_manifest.c \
	runtime/checkpoint_map.c runtime/checkpoint_read.c runtime/checkpoint_save.c runtime/checkpoint_saver.c \
	runtime/checkpoint_load.c runtime/huggingface.h runtime/huggingface.c

AM_CPPFLAGS += -I$(top_srcdir)/runtime

noinst_LTLIBRARIES += libp4dtrain.la
libp4dtrain_la_SOURCES = $(runtime_data_sources) $(runtime_checkpoint_sources)
libp4dtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(XXHASH_CFLAGS)
# programs link libp4d.la, too
libp4dtrain_la_LIBADD = $(XXHASH_LIBS) -lm
