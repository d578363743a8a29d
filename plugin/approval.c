/* SPDX-License-Identifier: Apache-2.0 */
#include "approval.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define DIGEST_PREFIX "p4d:"
#define PLAN_PREFIX "p4d1:"

static bool is_approval(const char *word)
{
	return !strncmp(word, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) ||
	       !strncmp(word, PLAN_PREFIX, strlen(PLAN_PREFIX));
}

static bool is_ours(const char *word)
{
	return is_approval(word) || p4d_verdict_record_is_word(word);
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
		if (is_approval(at)) {
			read_word(at, length, approval);
			return;
		}
		at += length;
	}
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
