# SPDX-License-Identifier: Apache-2.0
# libp4dtrain: what p4d-train is made of besides libp4d.
if HAVE_OPENBLAS
# The cpu device's operations are compiled once per element type. fp64 is for tests.
cpu_operations = \
	runtime/cpu_operations.h runtime/cpu_types.h runtime/cpu_math.h \
	runtime/cpu_product.c runtime/cpu_norm.c runtime/cpu_heads.c \
	runtime/cpu_attention.h runtime/cpu_attention.c runtime/cpu_attention_backward.c \
	runtime/cpu_ffn.c runtime/cpu_embedding.c runtime/cpu_loss.c runtime/cpu_optimizer.c
cpu_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
cpu_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS)

noinst_LTLIBRARIES += libp4dcpu32.la libp4dcpu16.la libp4dtrain.la
libp4dcpu32_la_SOURCES = $(cpu_operations)
libp4dcpu32_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=32
libp4dcpu32_la_CFLAGS = $(cpu_CFLAGS)
libp4dcpu16_la_SOURCES = $(cpu_operations)
libp4dcpu16_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=16
libp4dcpu16_la_CFLAGS = $(cpu_CFLAGS)
check_LTLIBRARIES += libp4dcpu64.la
libp4dcpu64_la_SOURCES = $(cpu_operations)
libp4dcpu64_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=64
libp4dcpu64_la_CFLAGS = $(cpu_CFLAGS)
libp4dcpu64_la_LIBADD = $(OPENBLAS_LIBS) -lm

libp4dtrain_la_SOURCES = \
	runtime/device.h runtime/device_cpu.c
libp4dtrain_la_CPPFLAGS = $(cpu_CPPFLAGS)
libp4dtrain_la_CFLAGS = $(cpu_CFLAGS)
libp4dtrain_la_LIBADD = libp4dcpu32.la libp4dcpu16.la $(OPENBLAS_LIBS) -lm
endif
