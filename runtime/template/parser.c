/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the statements of a template. Also has functions that the parser of expressions shares. */
#include "template/parser.h"

#include <stdlib.h>
#include <string.h>

typedef struct p4d_name {
	struct p4d_name *next;
	size_t length;
	char text[];
} p4d_name;

enum { BUCKETS = 4096 };

/* Returns the current token as messages show it. */
static p4d_string shown(const p4d_parser *p)
{
	static const char *const kinds[] = {
	    [P4D_TOKEN_DATA] = "a text",  [P4D_TOKEN_BLOCK] = "{%",
	    [P4D_TOKEN_BLOCK_END] = "%}", [P4D_TOKEN_PRINT] = "{{",
	    [P4D_TOKEN_PRINT_END] = "}}", [P4D_TOKEN_END] = "the end of the template"};
	const p4d_token *token = p4d_template__now(p);
	const char *kind =
	    token->kind < P4D_TOKEN_NAME || token->kind == P4D_TOKEN_END ? kinds[token->kind] : NULL;

	return kind ? (p4d_string){kind, strlen(kind)} : token->text;
}

int p4d_template__wrong(p4d_parser *p, const char *what)
{
	const p4d_string text = shown(p);

	return p4d_fail(p->err, P4D_E_VALUE, "%.150s:%u: %s %.*s", p->template->name,
			p4d_template__now(p)->line, what, text.length < 40 ? (int)text.length : 40, text.at);
}

static int unsupported(p4d_parser *p, const char *what)
{
	return p4d_fail(p->err, P4D_E_VALUE, "%.150s:%u: p4d does not support %s", p->template->name,
			p4d_template__now(p)->line, what);
}

p4d_node *p4d_template__node(p4d_parser *p, p4d_syntax_kind kind)
{
	p4d_node *made = p4d_template__take(&p->template->arena, 1, sizeof(*made));

	if (!made) {
		p4d_fail(p->err, P4D_E_NO_MEMORY, "no memory for the template %.200s", p->template->name);
		return NULL;
	}
	made->kind = kind;
	made->line = p4d_template__now(p)->line;
	return made;
}

static const char *name_of(p4d_parser *p, p4d_string text)
{
	uint32_t hash = 2166136261;

	for (size_t i = 0; i < text.length; i++)
		hash = (hash ^ (unsigned char)text.at[i]) * 16777619;
	p4d_name **bucket = &p->names[hash % BUCKETS];
	for (p4d_name *name = *bucket; name; name = name->next)
		if (name->length == text.length && !memcmp(name->text, text.at, text.length))
			return name->text;
	p4d_name *made = p4d_template__take(&p->template->arena, 1, sizeof(*made) + text.length + 1);
	if (!made) {
		p4d_fail(p->err, P4D_E_NO_MEMORY, "no memory for the template %.200s", p->template->name);
		return NULL;
	}
	*made = (p4d_name){.next = *bucket, .length = text.length};
	memcpy(made->text, text.at, text.length);
	*bucket = made;
	return made->text;
}

int p4d_template__enter(p4d_parser *p)
{
	if (p->depth++ < P4D_TEMPLATE_NESTING)
		return 0;
	return p4d_fail(p->err, P4D_E_VALUE, "%.150s:%u: more than %d nested blocks and expressions",
			p->template->name, p4d_template__now(p)->line, P4D_TEMPLATE_NESTING);
}

bool p4d_template__is(const p4d_token *token, p4d_token_kind kind, const char *text)
{
	const size_t length = strlen(text);

	return token->kind == kind && token->text.length == length && !memcmp(token->text.at, text, length);
}

bool p4d_template__skip(p4d_parser *p, p4d_token_kind kind, const char *text)
{
	const bool found = p4d_template__is(p4d_template__now(p), kind, text);

	p->at += found;
	return found;
}

int p4d_template__expect(p4d_parser *p, p4d_token_kind kind, const char *text)
{
	char what[64] = "";

	if (p4d_template__skip(p, kind, text))
		return 0;
	strcat(strncat(strcpy(what, "expected "), text, 32), " before");
	return p4d_template__wrong(p, what);
}

const char *p4d_template__expect_name(p4d_parser *p)
{
	if (p4d_template__now(p)->kind != P4D_TOKEN_NAME) {
		p4d_template__wrong(p, "a name was expected before");
		return NULL;
	}
	return name_of(p, p->tokens.at[p->at++].text);
}

static bool word(p4d_parser *p, const char *text)
{
	return p4d_template__skip(p, P4D_TOKEN_NAME, text);
}

static int end_block(p4d_parser *p)
{
	if (p4d_template__now(p)->kind != P4D_TOKEN_BLOCK_END)
		return p4d_template__wrong(p, "%} was expected before");
	p->at++;
	return 0;
}

/* Whether {% NAME is next. names: the accepted names; the list ends with NULL. */
static bool at_block(const p4d_parser *p, const char *const *names)
{
	if (p4d_template__now(p)->kind != P4D_TOKEN_BLOCK)
		return false;
	for (; *names; names++)
		if (p4d_template__is(p4d_template__now(p) + 1, P4D_TOKEN_NAME, *names))
			return true;
	return false;
}

static int read_statement(p4d_parser *p, p4d_node **made);

/* Reads statements up to {% NAME for one of the names. The parser is then after "{%". */
static int read_until(p4d_parser *p, p4d_node **list, const char *const *names)
{
	if (p4d_template__enter(p) < 0)
		return -1;
	while (!at_block(p, names)) {
		if (p4d_template__now(p)->kind == P4D_TOKEN_END) {
			if (!*names)
				return 0;
			return p4d_fail(p->err, P4D_E_VALUE, "%.150s:%u: {%% %s %%} is missing",
					p->template->name, p4d_template__now(p)->line, *names);
		}
		if (read_statement(p, list) < 0)
			return -1;
		if (*list)
			list = &(*list)->next;
	}
	p->at++;
	p->depth--;
	return 0;
}

/* Reads the rest of a tag and the block's statements, up to {% END %}. */
static int read_body(p4d_parser *p, p4d_node **list, const char *end)
{
	const char *const names[] = {end, NULL};

	if (end_block(p) < 0 || read_until(p, list, names) < 0)
		return -1;
	p->at++;
	return end_block(p);
}

static int read_if(p4d_parser *p, p4d_node *made)
{
	static const char *const names[] = {"endif", "else", "elif", NULL};

	for (;;) {
		if (!(made->a = p4d_template__expressions(p, false, NULL)) || end_block(p) < 0 ||
		    read_until(p, &made->b, names) < 0)
			return -1;
		if (word(p, "endif"))
			return end_block(p);
		if (word(p, "else"))
			return read_body(p, &made->c, "endif");
		p->at++;
		made = made->c = p4d_template__node(p, P4D_NODE_IF);
		if (!made)
			return -1;
	}
}

static int read_for(p4d_parser *p, p4d_node *made)
{
	static const char *const names[] = {"endfor", "else", NULL};

	if (!(made->a = p4d_template__target(p, "in", false)) ||
	    p4d_template__expect(p, P4D_TOKEN_NAME, "in") < 0 ||
	    !(made->b = p4d_template__expressions(p, false, "recursive")))
		return -1;
	if (word(p, "if") && !(made->d = p4d_template__expression(p, true)))
		return -1;
	if (word(p, "recursive"))
		return unsupported(p, "recursive loops");
	p->loops++;
	if (end_block(p) < 0 || read_until(p, &made->c, names) < 0)
		return -1;
	p->loops--;
	if (word(p, "else"))
		return read_body(p, &made->e, "endfor");
	p->at++;
	return end_block(p);
}

/*
 * Reads the filters for a block's output to *filters; NULL: there are none. bare: the first has no bar before
 * it.
 */
static int read_block_filters(p4d_parser *p, p4d_node **filters, bool bare)
{
	p4d_node *captured = p4d_template__node(p, P4D_NODE_CAPTURED);

	*filters = captured ? p4d_template__filters(p, captured, bare) : NULL;
	if (*filters && *filters == captured)
		*filters = NULL;
	else if (!*filters)
		return -1;
	return 0;
}

static int read_captured(p4d_parser *p, p4d_node *made, const char *end)
{
	p->captures++;
	const int rc = read_body(p, &made->c, end);
	p->captures--;
	return rc;
}

static int read_set(p4d_parser *p, p4d_node *made)
{
	if (!(made->a = p4d_template__target(p, NULL, true)))
		return -1;
	if (p4d_template__skip(p, P4D_TOKEN_SIGN, "=")) {
		made->b = p4d_template__expressions(p, true, NULL);
		return made->b ? end_block(p) : -1;
	}
	made->kind = P4D_NODE_SET_BLOCK;
	if (read_block_filters(p, &made->b, false) < 0)
		return -1;
	return read_captured(p, made, "endset");
}

/* Reads parameters after the opening parenthesis. */
static int read_parameters(p4d_parser *p, p4d_node **list)
{
	while (!p4d_template__is(p4d_template__now(p), P4D_TOKEN_SIGN, ")")) {
		p4d_node *made = *list = p4d_template__node(p, P4D_NODE_ARGUMENT);
		if (!made || !(made->name = p4d_template__expect_name(p)))
			return -1;
		if (p4d_template__skip(p, P4D_TOKEN_SIGN, "=") &&
		    !(made->a = p4d_template__expression(p, true)))
			return -1;
		list = &made->next;
		if (!p4d_template__skip(p, P4D_TOKEN_SIGN, ","))
			break;
	}
	return p4d_template__expect(p, P4D_TOKEN_SIGN, ")");
}

/* Reads the body of a macro, in which `break` cannot leave a surrounding loop. */
static int read_macro_body(p4d_parser *p, p4d_node *made, const char *end)
{
	const unsigned loops = p->loops;

	p->loops = 0;
	const int rc = read_captured(p, made, end);
	p->loops = loops;
	return rc;
}

static int read_macro(p4d_parser *p, p4d_node *made)
{
	if (!(made->name = p4d_template__expect_name(p)) ||
	    p4d_template__expect(p, P4D_TOKEN_SIGN, "(") < 0 || read_parameters(p, &made->a) < 0)
		return -1;
	return read_macro_body(p, made, "endmacro");
}

static int read_call_block(p4d_parser *p, p4d_node *made)
{
	made->name = name_of(p, (p4d_string){"caller", 6});
	if (!made->name || (p4d_template__skip(p, P4D_TOKEN_SIGN, "(") && read_parameters(p, &made->a) < 0) ||
	    !(made->b = p4d_template__expression(p, true)))
		return -1;
	if (made->b->kind != P4D_NODE_CALL)
		return p4d_template__wrong(p, "a call was expected before");
	return read_macro_body(p, made, "endcall");
}

static int read_filter_block(p4d_parser *p, p4d_node *made)
{
	if (read_block_filters(p, &made->b, true) < 0)
		return -1;
	return read_captured(p, made, "endfilter");
}

static int read_with(p4d_parser *p, p4d_node *made)
{
	p4d_node **list = &made->a;

	while (p4d_template__now(p)->kind != P4D_TOKEN_BLOCK_END) {
		if (list != &made->a && p4d_template__expect(p, P4D_TOKEN_SIGN, ",") < 0)
			return -1;
		p4d_node *one = *list = p4d_template__node(p, P4D_NODE_ARGUMENT);
		if (!one || !(one->a = p4d_template__target(p, NULL, false)) ||
		    p4d_template__expect(p, P4D_TOKEN_SIGN, "=") < 0 ||
		    !(one->b = p4d_template__expression(p, true)))
			return -1;
		list = &one->next;
	}
	return read_body(p, &made->c, "endwith");
}

static int read_generation(p4d_parser *p, p4d_node *made)
{
	if (p->captures)
		return unsupported(p, "{% generation %} inside {% macro %} or a {% set %} block");
	p->template->generates = true;
	return read_body(p, &made->c, "endgeneration");
}

static int read_jump(p4d_parser *p, p4d_node *made)
{
	(void)made;
	return p->loops ? end_block(p)
			: p4d_template__wrong(p, "break or continue outside of a loop, before");
}

static const struct {
	const char *name;
	p4d_syntax_kind kind;
	int (*read)(p4d_parser *p, p4d_node *made);
} statements[] = {
    {"if", P4D_NODE_IF, read_if},
    {"for", P4D_NODE_FOR, read_for},
    {"set", P4D_NODE_SET, read_set},
    {"macro", P4D_NODE_MACRO, read_macro},
    {"call", P4D_NODE_CALL_BLOCK, read_call_block},
    {"filter", P4D_NODE_FILTER_BLOCK, read_filter_block},
    {"with", P4D_NODE_WITH, read_with},
    {"generation", P4D_NODE_GENERATION, read_generation},
    {"break", P4D_NODE_BREAK, read_jump},
    {"continue", P4D_NODE_CONTINUE, read_jump},
};

/* Reads a block whose "{%" was already read. */
static int read_block(p4d_parser *p, p4d_node **made)
{
	static const char *const others[] = {"block", "extends",    "include", "import", "from",
					     "do",    "autoescape", "trans",   "debug"};
	char what[48] = "{% ";

	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
		if (p4d_template__is(p4d_template__now(p), P4D_TOKEN_NAME, statements[i].name)) {
			*made = p4d_template__node(p, statements[i].kind);
			p->at++;
			return *made ? statements[i].read(p, *made) : -1;
		}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (p4d_template__is(p4d_template__now(p), P4D_TOKEN_NAME, others[i]))
			return unsupported(p, strcat(strcat(what, others[i]), " %}"));
	return p4d_template__wrong(p, "a statement was expected before");
}

static int read_statement(p4d_parser *p, p4d_node **made)
{
	const p4d_token *token = p4d_template__now(p);

	p->at++;
	if (token->kind == P4D_TOKEN_BLOCK)
		return read_block(p, made);
	if (!(*made = p4d_template__node(p, token->kind == P4D_TOKEN_PRINT ? P4D_NODE_PRINT : P4D_NODE_DATA)))
		return -1;
	(*made)->line = token->line;
	(*made)->constant = p4d_value_text(token->text.at, token->text.length);
	if (token->kind != P4D_TOKEN_PRINT)
		return 0;
	if (!((*made)->a = p4d_template__expressions(p, true, NULL)))
		return -1;
	if (p4d_template__now(p)->kind != P4D_TOKEN_PRINT_END)
		return p4d_template__wrong(p, "}} was expected before");
	p->at++;
	return 0;
}

int p4d_template__parse(p4d_template *template, p4d_string source, p4d_error *err)
{
	static const char *const none[] = {NULL};
	p4d_parser p = {.template = template, .err = err};

	p.names = p4d_template__take(&template->arena, BUCKETS, sizeof(*p.names));
	int rc = p.names ? p4d_template__tokens(&p.tokens, &template->arena, template->name, source, err)
			 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a template");
	if (rc == 0 && !(template->loop = name_of(&p, (p4d_string){"loop", 4})))
		rc = -1;
	if (rc == 0)
		rc = read_until(&p, &template->body, none);
	free(p.tokens.at);
	return rc;
}
