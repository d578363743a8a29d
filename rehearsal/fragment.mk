# SPDX-License-Identifier: Apache-2.0
# The rehearsal: stand-ins for CUDA, cuBLAS, cuDNN, NCCL and the driver (in C, built without any of these), and
# additions to PyTorch (in Python). `p4d rehearse` preloads the former and puts the latter at the start of PYTHONPATH.
pkglib_LTLIBRARIES += libp4d-rehearsal.la
installed_modules += $(pkglibdir)/libp4d-rehearsal
libp4d_rehearsal_la_SOURCES =
libp4d_rehearsal_la_LIBADD = libp4dstandins.la -ldl -lpthread
libp4d_rehearsal_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
# a separate library for tests, which link it
noinst_LTLIBRARIES += libp4dstandins.la
libp4dstandins_la_SOURCES = \
	rehearsal/abi.h rehearsal/result.h rehearsal/stream.h rehearsal/device.h \
	rehearsal/settings.h rehearsal/settings.c \
	rehearsal/account.h rehearsal/account.c \
	rehearsal/pinned.h rehearsal/pinned.c \
	rehearsal/report.h rehearsal/report.c \
	rehearsal/real.h rehearsal/real.c \
	rehearsal/runtime_errors.c rehearsal/runtime_memory.c rehearsal/runtime_pools.c rehearsal/runtime_streams.c \
	rehearsal/runtime_graphs.c rehearsal/runtime_device.c rehearsal/runtime_kernels.c \
	rehearsal/cupti.c rehearsal/driver.c rehearsal/driver_memory.c rehearsal/nvml.c rehearsal/blas.c rehearsal/fft.c rehearsal/solver.c rehearsal/sparse.c \
	rehearsal/dnn.h rehearsal/dnn.c rehearsal/dnn_old.c rehearsal/dnn_plan.c \
	rehearsal/comm.h rehearsal/comm.c rehearsal/comm_peers.c rehearsal/comm_record.c \
	rehearsal/absent.c rehearsal/absent.def rehearsal/products.def
libp4dstandins_la_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir)/rehearsal
# Programs declare these functions with NVIDIA's headers.
libp4dstandins_la_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes -fvisibility=hidden

rehearsal_python = \
	rehearsal/python/sitecustomize.py \
	rehearsal/python/p4d_rehearsal/__init__.py \
	rehearsal/python/p4d_rehearsal/account.py \
	rehearsal/python/p4d_rehearsal/autotune.py \
	rehearsal/python/p4d_rehearsal/checks.py \
	rehearsal/python/p4d_rehearsal/compiled.py \
	rehearsal/python/p4d_rehearsal/custom.py \
	rehearsal/python/p4d_rehearsal/engines.py \
	rehearsal/python/p4d_rehearsal/files.py \
	rehearsal/python/p4d_rehearsal/groups.py \
	rehearsal/python/p4d_rehearsal/launchers.py \
	rehearsal/python/p4d_rehearsal/own_bytes.py \
	rehearsal/python/p4d_rehearsal/phases.py rehearsal/python/p4d_rehearsal/timeline.py \
	rehearsal/python/p4d_rehearsal/reads.py \
	rehearsal/python/p4d_rehearsal/routing.py \
	rehearsal/python/p4d_rehearsal/saving.py \
	rehearsal/python/p4d_rehearsal/seeds.py \
	rehearsal/python/p4d_rehearsal/sizes.py \
	rehearsal/python/p4d_rehearsal/smi.py \
	rehearsal/python/p4d_rehearsal/solvers.py \
	rehearsal/python/p4d_rehearsal/stages.py \
	rehearsal/python/p4d_rehearsal/subclasses.py \
	rehearsal/python/p4d_rehearsal/sums.py \
	rehearsal/python/p4d_rehearsal/trees.py \
	rehearsal/python/p4d_rehearsal/unsigned.py \
	rehearsal/python/p4d_rehearsal/values.py \
	rehearsal/python/p4d_rehearsal/work.py
rehearsaldir = $(pkgdatadir)/rehearsal
rehearsal_DATA = rehearsal/python/sitecustomize.py
rehearsalpackagedir = $(rehearsaldir)/p4d_rehearsal
rehearsalpackage_DATA = $(filter rehearsal/python/p4d_rehearsal/%,$(rehearsal_python))
EXTRA_DIST += $(rehearsal_python)

# In the directory of p4d in a build tree, which is searched first.
all-local: rehearsal/python/stamp
rehearsal/python/stamp: $(addprefix $(srcdir)/,$(rehearsal_python))
	@$(MKDIR_P) rehearsal/python/p4d_rehearsal
	@test -f rehearsal/python/sitecustomize.py -a $(srcdir) = . || \
		for file in $(rehearsal_python); do cp $(srcdir)/$$file $$file; done
	@touch $@
CLEANFILES += rehearsal/python/stamp
# Copies for builds outside of the source tree.
clean-local:
	test $(srcdir) = . || rm -rf rehearsal/python
