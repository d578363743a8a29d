# SPDX-License-Identifier: Apache-2.0
# The two plugins: glue between Slurm and libp4d. Slurm's symbols are found in the program that loads them.
if HAVE_SLURM
slurmplugin_LTLIBRARIES = p4d.la job_submit_p4d.la

plugin_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(SLURM_CPPFLAGS)
plugin_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
# Lazy binding: sbatch pays for the functions it calls only. What neither plugin reaches of libp4d is left out.
plugin_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,lazy -Wl,--as-needed -Wl,--gc-sections

both_plugins = \
	plugin/slurm_compat.h \
	plugin/job_environment.h plugin/job_environment.c \
	plugin/cluster_facts.h plugin/cluster_facts.c \
	plugin/slurm_job.h plugin/slurm_job.c

p4d_la_SOURCES = $(both_plugins) \
	plugin/spank.c \
	plugin/spank_options.h plugin/spank_options.c \
	plugin/spank_submit.h plugin/spank_submit.c \
	plugin/spank_step.h plugin/spank_step.c \
	plugin/spank_report.h plugin/spank_report.c \
	plugin/client_job.h plugin/client_job.c \
	plugin/job_record.h plugin/job_record.c \
	plugin/site_file.h plugin/site_file.c
p4d_la_CPPFLAGS = $(plugin_CPPFLAGS)
p4d_la_CFLAGS = $(plugin_CFLAGS)
# nodelete: sbatch unloads its plugins right before it exits, which unmaps every library one by one.
p4d_la_LDFLAGS = $(plugin_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=$(srcdir)/plugin/spank.map
p4d_la_LIBADD = libp4d.la
p4d_la_DEPENDENCIES = libp4d.la plugin/spank.map

job_submit_p4d_la_SOURCES = $(both_plugins) \
	plugin/job_submit.h plugin/job_submit.c \
	plugin/job_submit_modify.c \
	plugin/job_submit_load.c \
	plugin/job_submit_watch.h plugin/job_submit_watch.c
job_submit_p4d_la_CPPFLAGS = $(plugin_CPPFLAGS)
job_submit_p4d_la_CFLAGS = $(plugin_CFLAGS)
job_submit_p4d_la_LDFLAGS = $(plugin_LDFLAGS) -Wl,--version-script=$(srcdir)/plugin/job_submit.map
job_submit_p4d_la_LIBADD = libp4d.la
job_submit_p4d_la_DEPENDENCIES = libp4d.la plugin/job_submit.map

installed_modules += $(slurmplugindir)/p4d $(slurmplugindir)/job_submit_p4d
endif
EXTRA_DIST += plugin/spank.map plugin/job_submit.map
