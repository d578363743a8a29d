# SPDX-License-Identifier: Apache-2.0
# libp4dtrain: what p4d-train is made of besides libp4d. Programs link both.
if HAVE_XXHASH
noinst_LTLIBRARIES += libp4dtrain.la
endif
libp4dtrain_la_SOURCES = $(comm_sources) $(data_sources) $(trainer_sources) $(checkpoint_sources) $(run_sources)
libp4dtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(XXHASH_CFLAGS)
libp4dtrain_la_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS) -fvisibility=hidden
libp4dtrain_la_LIBADD = $(XXHASH_LIBS) -lm

# Communication between ranks.
comm_sources = \
	runtime/comm.h runtime/device.h runtime/wire.h runtime/wire.c runtime/ranks_slurm.c \
	runtime/rendezvous.h runtime/rendezvous.c runtime/rendezvous_host.c \
	runtime/world.h runtime/world.c runtime/events.c \
	runtime/node.h runtime/node_open.c runtime/channel_shm.c runtime/channel_tcp.c runtime/channel.c \
	runtime/vector.h runtime/sum.h runtime/sum.c \
	runtime/group.h runtime/group.c runtime/collectives.c runtime/collectives_node.c runtime/collectives_wire.c \
	runtime/device_wait.h runtime/device_wait.c runtime/comm_device.h runtime/carrier.h runtime/comm_device.c runtime/comm_staged.c \
	runtime/comm_nccl.h runtime/comm_nccl.c runtime/comm_nccl_open.c \
	runtime/nccl_library.h runtime/nccl_library.c runtime/nccl_check.c

# Training data and tensor files.
data_sources = \
	runtime/mapping.h runtime/mapping.c runtime/new_file.h runtime/new_file.c \
	runtime/tokens.h runtime/tokens_data.h runtime/tokens.c runtime/tokens_megatron.c runtime/tokens_llmc.c \
	runtime/tokens_writer.h runtime/tokens_writer.c \
	runtime/permutation.h runtime/permutation.c runtime/shuffled.h runtime/shuffled.c \
	runtime/blend.h runtime/blend.c runtime/sampler.h runtime/sampler.c \
	runtime/safetensors.h runtime/safetensors_data.h runtime/safetensors.c runtime/safetensors_header.c \
	runtime/safetensors_writer.c

# Checkpoints.
checkpoint_sources = \
	runtime/checkpoint.h runtime/checkpoint_data.h runtime/checkpoint_files.c runtime/checkpoint_manifest.c \
	runtime/checkpoint_map.c runtime/checkpoint_read.c runtime/checkpoint_save.c runtime/checkpoint_saver.c \
	runtime/checkpoint_load.c runtime/checkpoint_trainer.h runtime/checkpoint_trainer.c \
	runtime/huggingface.h runtime/huggingface.c runtime/huggingface_config.h runtime/huggingface_config.c

# A run: what it was told, what it says, and how it ends.
run_sources = \
	runtime/memory_report.h runtime/memory_report.c \
	runtime/settings.def runtime/settings.h runtime/settings.c runtime/job_plan.h runtime/job_plan.c \
	runtime/learning_rate.h runtime/learning_rate.c runtime/loss_watch.h runtime/loss_watch.c \
	runtime/step_log.h runtime/step_log.c runtime/stop.h runtime/stop.c runtime/watchdog.h runtime/watchdog.c \
	runtime/host_memory.h runtime/host_memory.c runtime/rank_error.h runtime/rank_error.c \
	runtime/local_ranks.h runtime/local_ranks.c \
	estimator/arguments.h estimator/arguments.c

# The model over a device, and the executor of instruction lists.
trainer_sources = \
	runtime/weights.h runtime/place.c runtime/weights.c runtime/pieces.c \
	runtime/trainer.h runtime/trainer_parts.h runtime/trainer.c runtime/trainer_state.c runtime/initialize.c \
	runtime/buffers.c runtime/parallel.c runtime/layer_forward.c runtime/layer_backward.c \
	runtime/sequence_order.c runtime/attention_parts.h runtime/attention_layer.c runtime/attention_ring.c \
	runtime/attention_gather.c runtime/embedding.c runtime/head.c runtime/vocabulary.c \
	runtime/executor.c runtime/optimizer.c runtime/arena_use.c runtime/warm_up.c

if HAVE_OPENBLAS
# The cpu device's operations are compiled once per element type. fp64 is for tests.
cpu_operations = \
	runtime/cpu_operations.h runtime/cpu_types.h runtime/cpu_math.h runtime/cpu_attention.h \
	runtime/cpu_product.c runtime/cpu_norm.c runtime/cpu_heads.c \
	runtime/cpu_attention.c runtime/cpu_attention_backward.c \
	runtime/cpu_ffn.c runtime/cpu_embedding.c runtime/cpu_loss.c runtime/cpu_optimizer.c
cpu_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
cpu_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS)

noinst_LTLIBRARIES += libp4dcpu32.la libp4dcpu16.la
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

libp4dtrain_la_SOURCES += runtime/device_cpu.c runtime/library.h runtime/library.c runtime/device_cuda.h runtime/device_cuda.c
libp4dtrain_la_CPPFLAGS += $(OPENBLAS_CFLAGS)
libp4dtrain_la_LIBADD += libp4dcpu32.la libp4dcpu16.la $(OPENBLAS_LIBS)

bin_PROGRAMS += p4d-train
p4d_train_SOURCES = \
	runtime/train_main.c runtime/train.h runtime/train.c runtime/train_data.h runtime/train_data.c \
	runtime/train_save.h runtime/train_save.c runtime/train_device.h runtime/train_device.c
p4d_train_LDADD = libp4dtrain.la libp4d.la
endif
