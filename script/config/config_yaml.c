/* SPDX-License-Identifier: Apache-2.0 */
/* Parses YAML, and its subset JSON, with libyaml. */
#include <string.h>
#include <yaml.h>

#include "config.h"
#include "config/config_internal.h"

enum { ANCHORS = 64 };

typedef struct yaml_anchor {
	const char *name;
	const p4d_config_node *node;
} yaml_anchor;

typedef struct yaml_level {
	p4d_config_entries entries;
	const char *key;    /* key of the next entry; NULL: the next node is a key */
	const char *anchor; /* anchor of the collection; NULL: none */
} yaml_level;

typedef struct yaml_reading {
	p4d_config *tree;
	const char *text; /* the unread rest of the text */
	size_t length;
	bool late;
	yaml_level level[P4D_CONFIG_DEPTH];
	int depth;
	yaml_anchor anchor[ANCHORS];
	int anchors;
} yaml_reading;

static const char *copy(yaml_reading *y, const yaml_char_t *text)
{
	return p4d_config__text(y->tree, (const char *)text, strlen((const char *)text));
}

/* Gives a node to an anchor. This happens only when the node is complete, so that no node contains itself. */
static bool set_anchor(yaml_reading *y, const char *name, const p4d_config_node *node)
{
	int i = 0;

	while (i < y->anchors && strcmp(y->anchor[i].name, name) != 0)
		i++;
	if (i == ANCHORS)
		return p4d_config__fail(y->tree, "the file has more than %d anchors", ANCHORS);
	y->anchor[i] = (yaml_anchor){name, node};
	y->anchors += i == y->anchors;
	return true;
}

static const p4d_config_node *find_anchor(const yaml_reading *y, const char *name)
{
	for (int i = 0; i < y->anchors; i++)
		if (!strcmp(y->anchor[i].name, name))
			return y->anchor[i].node;
	return NULL;
}

/* Adds a node at its place: at the top, to a list, or after its key. */
static bool place(yaml_reading *y, p4d_config_node *node)
{
	if (!node)
		return false;
	if (!y->depth) {
		y->tree->root = node;
		return true;
	}
	yaml_level *level = &y->level[y->depth - 1];
	if (level->entries.owner->kind == P4D_CONFIG_MAP) {
		if (!level->key) {
			if (node->kind > P4D_CONFIG_SCALAR)
				return p4d_config__fail(y->tree, "line %u has a key that is no text",
							node->line);
			level->key = node->text ? node->text : "";
			return true;
		}
		node->key = level->key;
		level->key = NULL;
	}
	p4d_config__add(&level->entries, node);
	return true;
}

static bool begin(yaml_reading *y, p4d_config_kind kind, const yaml_event_t *event, const yaml_char_t *anchor)
{
	p4d_config_node *node = p4d_config__node(y->tree, kind, event->start_mark.line + 1);

	if (!place(y, node))
		return false;
	if (y->depth && y->level[y->depth - 1].key)
		return p4d_config__fail(y->tree, "line %u has a key that is no text", node->line);
	if (y->depth == P4D_CONFIG_DEPTH)
		return p4d_config__fail(y->tree, "the file is nested deeper than %d levels",
					P4D_CONFIG_DEPTH);
	y->level[y->depth++] = (yaml_level){{node, NULL}, NULL, anchor ? copy(y, anchor) : NULL};
	return true;
}

static bool end(yaml_reading *y)
{
	const yaml_level *level = &y->level[--y->depth];

	return !level->anchor || set_anchor(y, level->anchor, level->entries.owner);
}

static bool is_null(const yaml_event_t *event)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp((const char *)event->data.scalar.value, words[i]))
			return true;
	return false;
}

static bool scalar(yaml_reading *y, const yaml_event_t *event)
{
	const bool null = is_null(event);
	p4d_config_node *node =
	    p4d_config__node(y->tree, null ? P4D_CONFIG_NULL : P4D_CONFIG_SCALAR, event->start_mark.line + 1);

	if (!node)
		return false;
	node->text = copy(y, event->data.scalar.value);
	if (!node->text)
		return false;
	const char *anchor = event->data.scalar.anchor ? copy(y, event->data.scalar.anchor) : NULL;
	return (!anchor || set_anchor(y, anchor, node)) && place(y, node);
}

static bool alias(yaml_reading *y, const yaml_event_t *event)
{
	const p4d_config_node *node = find_anchor(y, (const char *)event->data.alias.anchor);

	if (!node)
		return p4d_config__fail(y->tree, "line %zu names an anchor that is not there",
					event->start_mark.line + 1);
	p4d_config_node *again = p4d_config__node(y->tree, node->kind, node->line);
	if (!again)
		return false;
	again->text = node->text;
	again->first = node->first;
	return place(y, again);
}

/* Adds an event to the tree. *more: there is more text. */
static bool take(yaml_reading *y, const yaml_event_t *event, bool *more)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return scalar(y, event);
	case YAML_ALIAS_EVENT:
		return alias(y, event);
	case YAML_MAPPING_START_EVENT:
		return begin(y, P4D_CONFIG_MAP, event, event->data.mapping_start.anchor);
	case YAML_SEQUENCE_START_EVENT:
		return begin(y, P4D_CONFIG_LIST, event, event->data.sequence_start.anchor);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return end(y);
	case YAML_DOCUMENT_END_EVENT:
	case YAML_STREAM_END_EVENT:
		*more = false;
		return true;
	default:
		return true;
	}
}

/* Gives libyaml the next piece of the text, until the time limit. */
static int next_piece(void *context, unsigned char *buffer, size_t size, size_t *read)
{
	yaml_reading *y = context;

	size = size < P4D_CONFIG_PIECE ? size : P4D_CONFIG_PIECE;
	*read = y->length < size ? y->length : size;
	memcpy(buffer, y->text, *read);
	y->text += *read;
	y->length -= *read;
	y->late = p4d_config__late(y->tree);
	return !y->late;
}

static bool read_yaml(p4d_config *tree, const char *text, size_t length)
{
	yaml_reading y = {.tree = tree, .text = text, .length = length};
	yaml_parser_t parser;
	yaml_event_t event;
	bool good = true, more = true;

	if (length > P4D_CONFIG_BYTES)
		return p4d_config__fail(tree, "the file has more than %d bytes", P4D_CONFIG_BYTES);
	if (!yaml_parser_initialize(&parser))
		return p4d_config__fail(tree, "no memory");
	yaml_parser_set_input(&parser, next_piece, &y);
	while (good && more) {
		if (!yaml_parser_parse(&parser, &event)) {
			good =
			    !y.late && p4d_config__fail(tree, "line %zu: %.80s", parser.problem_mark.line + 1,
							parser.problem ? parser.problem : "no memory");
			break;
		}
		good = take(&y, &event, &more);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return good;
}

const p4d_config_module p4d_config__yaml = {PACKAGE_VERSION, read_yaml};
