# SPDX-License-Identifier: Apache-2.0
# Not tried with Spack yet. The tarball is what `make dist` writes; Spack is told where it is with
#     spack install --no-checksum p4d
# in the folder of the tarball.
import os

from spack.package import *


class P4d(AutotoolsPackage):
    """GPU memory of LLM training jobs, before they run, and Slurm plugins that stop those that do not fit."""

    manual_download = True
    url = "file://{0}/p4d-0.1.0.tar.xz".format(os.getcwd())

    license("Apache-2.0")

    version("0.1.0")

    variant("slurm", default=True, description="Build Slurm's plugins")
    variant("train", default=True, description="Build p4d-train")
    variant("cuda", default=False, description="Let p4d-train train on GPUs", when="+train")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("json-c@0.14:")
    depends_on("util-linux@2.36:")
    depends_on("libyaml")
    depends_on("tomlplusplus")
    depends_on("sentencepiece")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("xxhash@0.8:")
    depends_on("slurm", when="+slurm")
    depends_on("openblas@0.3: threads=openmp", when="+train")
    depends_on("cuda", when="+cuda")

    def configure_args(self):
        slurm = self.spec["slurm"].prefix if self.spec.satisfies("+slurm") else "no"
        cuda = self.spec["cuda"].prefix if self.spec.satisfies("+cuda") else "no"
        # below the package's own prefix: PluginDir in slurm.conf names this folder, too
        return [
            f"--with-slurm={slurm}",
            f"--with-slurm-plugindir={self.prefix.lib.slurm}",
            f"--with-cuda={cuda}",
        ]
