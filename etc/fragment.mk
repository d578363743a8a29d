# SPDX-License-Identifier: Apache-2.0
dist_pkgdata_DATA = etc/gpus.json
# A job script that can be submitted as it is; `p4d job` prints its path.
dist_pkgdata_SCRIPTS = etc/p4d-job.sh

# modeldir is $(pkgdatadir)/models. Listed by name, so that a file that went missing stops `make dist`.
dist_model_DATA = \
	etc/models/gpt-1.7b.json \
	etc/models/gpt-145.6b.json \
	etc/models/gpt-18.4b.json \
	etc/models/gpt-1t.json \
	etc/models/gpt-3.6b.json \
	etc/models/gpt-310.1b.json \
	etc/models/gpt-39.1b.json \
	etc/models/gpt-529.6b.json \
	etc/models/gpt-7.5b.json \
	etc/models/gpt-76.1b.json \
	etc/models/gpt3-175b.json \
	etc/models/llama13b.json \
	etc/models/llama2-13b.json \
	etc/models/llama2-70b.json \
	etc/models/llama2-7b.json \
	etc/models/llama3-70b.json \
	etc/models/llama3-8b.json \
	etc/models/llama3.1-405b.json \
	etc/models/llama3.1-70b.json \
	etc/models/llama3.1-8b.json \
	etc/models/llama3.2-1b.json \
	etc/models/llama3.2-3b.json \
	etc/models/llama3.3-70b.json \
	etc/models/llama30b.json \
	etc/models/llama65b.json \
	etc/models/llama7b.json \
	etc/models/mistral-7b.json \
	etc/models/nemotron4-15b.json \
	etc/models/nemotron4-340b.json \
	etc/models/qwen2.5-0.5b.json \
	etc/models/qwen2.5-1.5b.json \
	etc/models/qwen2.5-14b.json \
	etc/models/qwen2.5-32b.json \
	etc/models/qwen2.5-3b.json \
	etc/models/qwen2.5-72b.json \
	etc/models/qwen2.5-7b.json \
	etc/models/qwen3-0.6b.json \
	etc/models/qwen3-1.7b.json \
	etc/models/qwen3-14b.json \
	etc/models/qwen3-32b.json \
	etc/models/qwen3-4b.json \
	etc/models/qwen3-8b.json \
	etc/models/tinyllama-1.1b.json

# The sample is installed once; an administrator's file is neither replaced nor removed.
EXTRA_DIST += etc/p4d.conf
install-data-local:
	@$(MKDIR_P) "$(DESTDIR)$(sysconfdir)"
	@test -e "$(DESTDIR)$(sysconfdir)/p4d.conf" || \
		$(INSTALL_DATA) "$(srcdir)/etc/p4d.conf" "$(DESTDIR)$(sysconfdir)/p4d.conf"
uninstall-hook:
	@if cmp -s "$(srcdir)/etc/p4d.conf" "$(DESTDIR)$(sysconfdir)/p4d.conf"; then \
		rm -f "$(DESTDIR)$(sysconfdir)/p4d.conf"; fi
