# SPDX-License-Identifier: Apache-2.0
# P4D_COMPONENTS: what this build links, loads or is loaded by, for `make sbom`: NAME:VERSION:LICENSE:RELATIONSHIP, the last two
# in the words of SPDX.
AC_DEFUN([P4D_COMPONENTS], [
	P4D_PARTS=
	P4D_COMPONENT([yes], [json-c], [`$PKG_CONFIG --modversion json-c`], [MIT:DYNAMIC_LINK])
	P4D_COMPONENT([yes], [smartcols], [`$PKG_CONFIG --modversion smartcols`], [LGPL-2.1-or-later:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_zlib], [z], [`$PKG_CONFIG --modversion zlib`], [Zlib:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_yaml], [yaml-0], [`$PKG_CONFIG --modversion yaml-0.1`], [MIT:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_toml], [tomlplusplus], [`$PKG_CONFIG --modversion tomlplusplus`], [MIT:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_xxhash], [xxhash], [`$PKG_CONFIG --modversion libxxhash`], [BSD-2-Clause:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_openblas], [openblas], [`$PKG_CONFIG --modversion openblas`], [BSD-3-Clause:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_sentencepiece], [sentencepiece], [`$PKG_CONFIG --modversion sentencepiece 2>/dev/null || echo NOASSERTION`],
		[Apache-2.0:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_tokenizers], [pcre2-8], [`$PKG_CONFIG --modversion libpcre2-8`], [BSD-3-Clause:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_tokenizers], [utf8proc], [`$PKG_CONFIG --modversion libutf8proc`], [MIT:DYNAMIC_LINK])
	P4D_COMPONENT([$p4d_slurm], [slurm], [$p4d_slurm_version], [GPL-2.0-or-later:PREREQUISITE_FOR])
	P4D_COMPONENT([$p4d_cuda], [cuda-runtime], [$p4d_cuda_version], [LicenseRef-NVIDIA:STATIC_LINK])
	P4D_COMPONENT([$p4d_cuda], [cublasLt], [$p4d_cuda_version], [LicenseRef-NVIDIA:DYNAMIC_LINK])
	AC_SUBST([P4D_PARTS])
])

# P4D_COMPONENT(BUILT-WITH-IT, NAME, VERSION, LICENSE:RELATIONSHIP)
AC_DEFUN([P4D_COMPONENT], [
	AS_IF([test "x$1" = xyes], [P4D_PARTS="$P4D_PARTS $2:$3:$4"])
])
