/* SPDX-License-Identifier: Apache-2.0 */
#include "approval.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define DIGEST_PREFIX "p4d:"
#define PLAN_PREFIX "p4d1:"

static bool is_ours(const char *word)
{
	return !strncmp(word, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) ||
	       !strncmp(word, PLAN_PREFIX, strlen(PLAN_PREFIX));
}

static void read_word(const char *word, size_t length, p4d_approval *approval)
{
	p4d_request plan = {0};

	if (!strncmp(word, DIGEST_PREFIX, strlen(DIGEST_PREFIX))) {
		snprintf(approval->digest, sizeof(approval->digest), "%.*s",
			 (int)strcspn(word + strlen(DIGEST_PREFIX), ": "), word + strlen(DIGEST_PREFIX));
		return;
	}
	snprintf(approval->plan, sizeof(approval->plan), "%.*s", (int)length, word);
	if (!p4d_plan_read(approval->plan, &plan, NULL)) {
		p4d_plan_digest(&plan, approval->digest);
	} else {
		approval->plan[0] = '\0';
		snprintf(approval->digest, sizeof(approval->digest), "unreadable");
	}
}

void p4d_approval_read(const char *comment, p4d_approval *approval)
{
	approval->digest[0] = approval->plan[0] = '\0';
	for (const char *at = comment; at && *at; at += strspn(at, " ")) {
		const size_t length = strcspn(at, " ");
		if (is_ours(at)) {
			read_word(at, length, approval);
			return;
		}
		at += length;
	}
}

/* "p4d:0123...:47.6of79.1GiB,h100-80gb,nodes=1,tp=8,pp=1,model=llama13b" */
const char *p4d_approval_summary(const p4d_verdict *verdict, char buf[P4D_APPROVAL_SUMMARY + 1])
{
	static const p4d_option shown[] = {P4D_NODES, P4D_GPUS_PER_NODE, P4D_TP, P4D_CP,
					   P4D_PP,    P4D_MICRO_BATCH};
	p4d_text text = p4d_text_in(buf, P4D_APPROVAL_SUMMARY + 1);
	const p4d_request *plan = &verdict->planned;
	char digest[P4D_DIGEST_TEXT], value[32];

	if (!verdict->plan[0] || !p4d_is_set(plan, P4D_MODEL))
		return buf;
	p4d_plan_digest(plan, digest);
	p4d_text_print(&text, DIGEST_PREFIX "%s:", digest);
	if (verdict->judged && verdict->estimate.capacity_bytes)
		p4d_text_print(&text, "%.1fof%.1fGiB,", p4d_to_gib(verdict->estimate.peak.device_bytes),
			       p4d_to_gib(verdict->estimate.capacity_bytes));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (p4d_is_set(plan, shown[i]))
			p4d_text_print(&text, "%s=%s,", p4d_request_option_info(shown[i])->name,
				       p4d_request_value_text(plan, shown[i], value, sizeof(value)));
	p4d_text_print(&text, "model=");
	p4d_plan_encode(&text, verdict->model);
	return buf;
}

char *p4d_approval_write(const char *comment, const char *ours)
{
	p4d_text text = {.grows = true};

	p4d_text_add(&text, "");
	for (const char *at = comment; at && *at;) {
		const size_t word = strcspn(at, " "), blanks = strspn(at + word, " ");
		if (!is_ours(at))
			p4d_text_add_bytes(&text, at, word + blanks);
		at += word + blanks;
	}
	if (*ours && text.length && text.at[text.length - 1] != ' ')
		p4d_text_add(&text, " ");
	p4d_text_add(&text, ours);
	if (!text.truncated)
		return text.at;
	free(text.at);
	return NULL;
}
