# SPDX-License-Identifier: Apache-2.0
# What makes packages of p4d. debian/ is where dpkg-buildpackage looks.
EXTRA_DIST += \
	packaging/p4d.spec packaging/spack/package.py packaging/p4d.eb \
	debian/changelog debian/control debian/copyright debian/not-installed debian/rules debian/source/format \
	debian/libp4d0.install debian/libp4d-dev.install debian/p4d.docs debian/p4d.install debian/p4d-doc.install debian/p4d-rehearsal.install debian/p4d-train.install \
	debian/slurm-wlm-p4d-plugin.install debian/slurm-wlm-p4d-plugin.postrm debian/slurm-wlm-p4d-plugin.prerm \
	debian/plugstack.conf.d/p4d.conf
