/* SPDX-License-Identifier: Apache-2.0 */
#include "job/script.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A piece of the script: one line without its comment. */
typedef struct span {
	const char *text;
	size_t length;
} span;

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Takes the next line off the front of rest. A '#' starts a comment where a word could start. */
static bool next_line(span *rest, span *line)
{
	if (!rest->length)
		return false;
	const char *newline = memchr(rest->text, '\n', rest->length);
	size_t length = newline ? (size_t)(newline - rest->text) : rest->length;

	*line = (span){rest->text, length};
	rest->text += length + (newline ? 1 : 0);
	rest->length -= length + (newline ? 1 : 0);
	for (size_t i = 0; i < line->length; i++)
		if (line->text[i] == '#' && (i == 0 || blank(line->text[i - 1])))
			line->length = i;
	return true;
}

static const char *find(span line, const char *word)
{
	return memmem(line.text, line.length, word, strlen(word));
}

/* A use of one of p4d's variables: $P4D_X or ${P4D_X. */
static bool uses_variable(span line)
{
	return find(line, "$P4D_") || find(line, "${P4D_");
}

static bool sets_tasks(span line)
{
	return find(line, " -n") || find(line, "--ntasks");
}

p4d_script p4d_script_scan(const char *text, size_t length)
{
	p4d_script script = {false, false, false, false};
	span rest = {text, length}, line;

	while (next_line(&rest, &line)) {
		if (uses_variable(line))
			script.uses_plan = true;
		if (find(line, "p4d-train")) {
			script.starts_p4d_train = true;
			script.uses_plan = true;
			script.sets_tasks = script.sets_tasks || sets_tasks(line);
		}
		if (find(line, "pretrain_gpt") || find(line, "--tensor-model-parallel-size") ||
		    find(line, "--pipeline-model-parallel-size") || find(line, "P4D_MEGATRON_ARGS"))
			script.megatron = true;
	}
	return script;
}

/* The number behind a flag, as `--flag 4`, `--flag=4` or `--flag "4"`. False when it is no literal number. */
static bool literal_after(span line, const char *flag, uint64_t *number)
{
	size_t flag_length = strlen(flag);
	const char *end = line.text + line.length;

	for (const char *at = find(line, flag); at;) {
		const char *value = at + flag_length;
		if (value < end && (*value == '=' || blank(*value))) {
			value++;
			while (value < end && (blank(*value) || *value == '"' || *value == '\''))
				value++;
			uint64_t n = 0;
			const char *digit = value;
			for (; digit < end && isdigit((unsigned char)*digit); digit++)
				n = n < UINT64_MAX / 16 ? n * 10 + (uint64_t)(*digit - '0') : UINT64_MAX;
			if (digit > value && (digit == end || !isalnum((unsigned char)*digit))) {
				*number = n;
				return true;
			}
		}
		size_t left = (size_t)(end - at) - flag_length;
		at = memmem(at + flag_length, left, flag, flag_length);
	}
	return false;
}

int p4d_script_contradicts(const char *text, size_t length, const p4d_layout *l, char *found, size_t size,
			   uint64_t *planned)
{
	const struct {
		const char *flag;
		uint64_t value;
	} flags[] = {
	    {"--tensor-model-parallel-size", l->tp},
	    {"--pipeline-model-parallel-size", l->pp},
	    {"--context-parallel-size", l->cp},
	    {"--num-virtual-stages-per-pipeline-rank", l->vpp},
	    {"--num-layers-per-virtual-pipeline-stage", l->layers / (l->pp * l->vpp)},
	    {"--micro-batch-size", l->micro_batch},
	    {"--global-batch-size", l->global_batch},
	    {"--seq-length", l->seq_len},
	    {"--num-layers", l->layers},
	    {"--hidden-size", l->hidden},
	    {"--ffn-hidden-size", l->ffn},
	    {"--num-attention-heads", l->heads},
	    {"--num-query-groups", l->kv_heads},
	};
	span rest = {text, length}, line;
	uint64_t number;

	while (next_line(&rest, &line))
		for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
			if (literal_after(line, flags[i].flag, &number) && number != flags[i].value) {
				snprintf(found, size, "%s %" PRIu64, flags[i].flag, number);
				*planned = flags[i].value;
				return 1;
			}
	return 0;
}
