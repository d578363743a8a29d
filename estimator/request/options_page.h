/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Headings of options_page.def, in the order in which help and p4d-options(7) print them: HEADING(ID, the
 * word of `p4d help WORD`, title)
 */
#define P4D_OPTION_HEADINGS(HEADING) \
	HEADING(MODEL, "model", "Model") \
	HEADING(LAYOUT, "layout", "Layout") \
	HEADING(MEMORY, "memory", "Memory") \
	HEADING(FRAMEWORK, "framework", "Framework") \
	HEADING(SERVING, "serving", "Serving and other workloads") \
	HEADING(RL, "rl", "Reinforcement learning") \
	HEADING(JOB, "cluster", "Job and cluster")

#define P4D_OPTION_HEADING_ID(id, word, title) P4D_HEADING_##id,
enum { P4D_OPTION_HEADINGS(P4D_OPTION_HEADING_ID) P4D_HEADING_COUNT };
#undef P4D_OPTION_HEADING_ID
