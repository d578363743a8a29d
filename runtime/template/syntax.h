/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "template/arena.h"
#include "template/template.h"
#include "template/value.h"

/* Kinds of nodes. The comments say what a, b, c, d and e are. Lists are linked by `next`. */
typedef enum p4d_syntax_kind {
	/* expressions */
	P4D_NODE_CONSTANT,
	P4D_NODE_NAME,
	P4D_NODE_CAPTURED,  /* the output of a block, to which the block's filters apply */
	P4D_NODE_LIST,      /* a: list */
	P4D_NODE_TUPLE,     /* a: list */
	P4D_NODE_DICT,      /* a: list of keys and values */
	P4D_NODE_ATTRIBUTE, /* a.name */
	P4D_NODE_ITEM,      /* a[b] */
	P4D_NODE_SLICE,     /* a[b:c:d], each of b to d may be NULL */
	P4D_NODE_CALL,      /* a(b: list of arguments) */
	P4D_NODE_FILTER,    /* a | name(b: list of arguments) */
	P4D_NODE_TEST,      /* a is name(b: list of arguments) */
	P4D_NODE_NOT,       /* a */
	P4D_NODE_AND,       /* a, b */
	P4D_NODE_OR,        /* a, b */
	P4D_NODE_COMPARE,   /* a, then b: list of P4D_NODE_OPERAND */
	P4D_NODE_OPERAND,   /* op a */
	P4D_NODE_SIGN,      /* op a */
	P4D_NODE_MATH,      /* a op b */
	P4D_NODE_CONCAT,    /* a: list */
	P4D_NODE_CONDITION, /* b if a else c (may be NULL) */
	P4D_NODE_ARGUMENT,  /* a, with a name or without; op: * or ** before it, or P4D_OP_EQUAL */

	/* statements */
	P4D_NODE_DATA,
	P4D_NODE_PRINT,        /* a */
	P4D_NODE_IF,           /* if a: b, else: c */
	P4D_NODE_FOR,          /* a (target) in b, if d: c, else: e */
	P4D_NODE_SET,          /* a (target) = b */
	P4D_NODE_SET_BLOCK,    /* a (target) = the output of c, through the filters b (may be NULL) */
	P4D_NODE_MACRO,        /* name(a: list of P4D_NODE_ARGUMENT, whose a is the default): c */
	P4D_NODE_CALL_BLOCK,   /* b (a call); its `caller` is the macro with parameters a and body c */
	P4D_NODE_FILTER_BLOCK, /* the output of c, through the filters b */
	/* c, with the variables of a: list of targets; b of each target is its value */
	P4D_NODE_WITH,
	P4D_NODE_GENERATION, /* c */
	P4D_NODE_BREAK,
	P4D_NODE_CONTINUE,
} p4d_syntax_kind;

typedef enum p4d_operator {
	P4D_OP_ADD,
	P4D_OP_SUBTRACT,
	P4D_OP_MULTIPLY,
	P4D_OP_DIVIDE,
	P4D_OP_FLOOR,
	P4D_OP_MODULO,
	P4D_OP_POWER,
	P4D_OP_EQUAL,
	P4D_OP_UNEQUAL,
	P4D_OP_LESS,
	P4D_OP_LESS_EQUAL,
	P4D_OP_GREATER,
	P4D_OP_GREATER_EQUAL,
	P4D_OP_IN,
	P4D_OP_NOT_IN,
} p4d_operator;

typedef struct p4d_node {
	p4d_syntax_kind kind;
	p4d_operator op;
	unsigned line;
	const char *name;                  /* names: equal names in a template are the same pointer */
	const struct p4d_builtin *builtin; /* the filter or test */
	p4d_datum constant;                /* also the text of P4D_NODE_DATA */
	struct p4d_node *a, *b, *c, *d, *e, *next;
} p4d_node;

struct p4d_template {
	const char *name;
	p4d_arena arena; /* memory of nodes, names and texts */
	p4d_node *body;
	const char *loop; /* the name of the variable "loop" */
	bool generates;
};

/* Fills body and generates of a template. Errors: VALUE (name:line: what), NO_MEMORY. */
int p4d_template__parse(p4d_template *template, p4d_string source, p4d_error *err);
