# SPDX-License-Identifier: Apache-2.0
"""What a rehearsal adds to PyTorch: phases (phases), what fills its memory (account, timeline), saving (saving), values
that decide sizes (values), groups of absent ranks (groups)."""
