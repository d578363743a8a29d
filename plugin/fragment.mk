# SPDX-License-Identifier: Apache-2.0
# The plugins connect Slurm and libp4d. Slurm's symbols come from the program that loads them.
if HAVE_SLURM
slurmplugin_LTLIBRARIES = p4d.la job_submit_p4d.la

plugin_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(SLURM_CPPFLAGS)
plugin_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden -ffunction-sections -fdata-sections
# Lazy binding: sbatch resolves only the functions that it calls. Parts of libp4d that a plugin does not use are left
# out.
plugin_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,lazy -Wl,--as-needed -Wl,--gc-sections

job_sources = \
	plugin/slurm_compat.h \
	plugin/job_environment.h plugin/job_environment.c \
	plugin/approval.h plugin/approval.c \
	plugin/accounting.h plugin/accounting.c \
	plugin/cluster_facts.h plugin/cluster_facts.c \
	plugin/slurm_job.h plugin/slurm_job.c
option_sources = \
	plugin/client.h \
	plugin/module.h plugin/module.c \
	plugin/client_option.h plugin/client_option.c \
	plugin/client_script.h plugin/client_script.c \
	plugin/given_options.h plugin/given_options.c

# sbatch pays for every mapping of what it opens, so code and constants share one (8 us of dlopen's 65).
client_LDFLAGS = $(plugin_LDFLAGS) -Wl,-z,noseparate-code

# Loaded for every job of the cluster: only the options.
p4d_la_SOURCES = $(option_sources) \
	plugin/site_words.h plugin/site_words.c \
	plugin/slurm_compat.h \
	plugin/job_environment.h plugin/job_environment.c \
	plugin/spank.c \
	plugin/spank_client.h plugin/spank_client.c \
	plugin/spank_gpus.h plugin/spank_gpus.c \
	plugin/spank_named.h plugin/spank_named.c \
	plugin/spank_options.h plugin/spank_options.c
p4d_la_CPPFLAGS = $(plugin_CPPFLAGS)
p4d_la_CFLAGS = $(plugin_CFLAGS)
# nodelete: sbatch unloads its plugins right before it exits, which would unmap every library one by one.
p4d_la_LDFLAGS = $(client_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=$(srcdir)/plugin/spank.map
p4d_la_LIBADD = libp4doptions.la
p4d_la_DEPENDENCIES = libp4doptions.la plugin/spank.map

# Opened by p4d.so for a job with p4d options. Not in Slurm's plugin directory, because Slurm opens every file there.
pkglib_LTLIBRARIES += libp4d-client.la
installed_modules += $(pkglibdir)/libp4d-client
libp4d_client_la_SOURCES = $(job_sources) $(option_sources) \
	plugin/client.c \
	plugin/json.h plugin/client_json.c \
	plugin/reader.h plugin/client_reader.c \
	plugin/spank_submit.h plugin/spank_submit.c \
	plugin/spank_step.h plugin/spank_step.c \
	plugin/spank_report.h plugin/spank_report.c \
	plugin/client_job.h plugin/client_job.c \
	plugin/job_record.h plugin/job_record.c \
	plugin/site_file.h plugin/site_file.c \
	plugin/site_words.h plugin/site_words.c
libp4d_client_la_CPPFLAGS = $(plugin_CPPFLAGS)
libp4d_client_la_CFLAGS = $(plugin_CFLAGS)
libp4d_client_la_LDFLAGS = $(client_LDFLAGS) -Wl,-z,nodelete -export-symbols-regex '^p4d_client$$'
libp4d_client_la_LIBADD = libp4dcore.la

# Libraries that libp4d-client.so opens on demand.
demand_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,--as-needed -Wl,--gc-sections -Wl,-z,nodelete

# For a job with a model file, or if p4d.conf names files.
pkglib_LTLIBRARIES += libp4d-json.la
installed_modules += $(pkglibdir)/libp4d-json
libp4d_json_la_SOURCES = plugin/json.h plugin/json.c
libp4d_json_la_CPPFLAGS = $(plugin_CPPFLAGS)
libp4d_json_la_CFLAGS = $(plugin_CFLAGS)
libp4d_json_la_LDFLAGS = $(demand_LDFLAGS) -export-symbols-regex '^p4d_json$$'
libp4d_json_la_LIBADD = libp4djson.la libp4dbase.la -lm

# For a job whose script may start a training.
pkglib_LTLIBRARIES += libp4d-reader.la
installed_modules += $(pkglibdir)/libp4d-reader
libp4d_reader_la_SOURCES = plugin/reader.h plugin/reader.c plugin/module.h plugin/module.c
libp4d_reader_la_CPPFLAGS = $(plugin_CPPFLAGS)
libp4d_reader_la_CFLAGS = $(plugin_CFLAGS)
libp4d_reader_la_LDFLAGS = $(demand_LDFLAGS) -export-symbols-regex '^p4d_reader$$'
libp4d_reader_la_LIBADD = libp4dreader.la libp4dcore.la

job_submit_p4d_la_SOURCES = $(job_sources) \
	plugin/job_submit.h plugin/job_submit.c \
	plugin/job_submit_kept.h plugin/job_submit_kept.c \
	plugin/job_submit_metrics.h plugin/job_submit_metrics.c \
	plugin/job_submit_modify.c \
	plugin/job_submit_record.h plugin/job_submit_record.c \
	plugin/job_submit_script.h plugin/job_submit_script.c \
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
