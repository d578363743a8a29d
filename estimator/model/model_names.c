/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"
#include "model/hub_name.h"
#include "model/model_internal.h"
#include "model/presets.h"

enum { MAX_KEY = 256, MAX_PATH = 1024, NEAREST = 3 };

static const char suffix[] = ".json";

/* Presets sorted by name: the files of a directory, or the table of the build. */
typedef struct listing {
	const char *datadir; /* NULL: the table of the build */
	struct dirent **file;
	int count;
} listing;

static const char *name_at(const listing *list, int i, size_t *length)
{
	const char *name = list->datadir ? list->file[i]->d_name : p4d_presets_name((size_t)i);

	*length = strlen(name) - (list->datadir ? sizeof(suffix) - 1 : 0);
	return name;
}

static int is_preset_file(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name), end = sizeof(suffix) - 1;

	return entry->d_name[0] != '.' && length > end && !strcmp(entry->d_name + length - end, suffix);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int list_presets(const char *datadir, listing *list, p4d_error *err)
{
	char path[MAX_PATH];

	*list = (listing){.datadir = datadir, .count = (int)p4d_presets_table_count};
	if (!datadir)
		return 0;
	snprintf(path, sizeof(path), "%s/models", datadir);
	list->count = scandir(path, &list->file, is_preset_file, by_name);
	if (list->count < 0)
		return p4d_fail(err, P4D_E_INSTALLATION, "%.255s: presets cannot be read: %m", path);
	return 0;
}

static void free_listing(listing *list)
{
	for (int i = 0; list->file && i < list->count; i++)
		free(list->file[i]);
	free(list->file);
}

static void path_of(const char *datadir, const char *file, char *path, size_t size)
{
	snprintf(path, size, "%s/models/%s", datadir, file);
}

/* Normalizes a name for comparison: lower case, without separators. */
static void squeeze(const char *name, size_t length, char *key, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used + 1 < size; i++)
		if (!strchr("-_. ", name[i]))
			key[used++] = (char)tolower((unsigned char)name[i]);
	key[used] = '\0';
}

/*
 * How well a preset's aliases fit. An unreadable preset fits no name. It causes an error only if the user
 * requests it by its own name.
 */
static int aliases_fit(const listing *list, int i, const p4d_hub_name *name, int64_t *max_seq_len)
{
	p4d_presets_row row = {.preset = {.name = ""}};
	char path[MAX_PATH];

	if (!list->datadir)
		return p4d_model__hub_name_fits(name, p4d_presets_aliases((size_t)i), max_seq_len);
	path_of(list->datadir, list->file[i]->d_name, path, sizeof(path));
	return p4d_model_file_read(path, &row, NULL) < 0
		   ? P4D_HUB_NAME_NO
		   : p4d_model__hub_name_fits(name, row.preset.aliases, max_seq_len);
}

/* Edit distance: insertions, deletions and replacements that turn a into b. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[MAX_KEY], columns = (unsigned)strlen(b);

	for (unsigned j = 0; j <= columns; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= columns; j++) {
			unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
			unsigned shift = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
			diagonal = row[j];
			row[j] = replace < shift ? replace : shift;
		}
	}
	return row[columns];
}

/* Length of the family in a normalized name: of "llama" in "llama213b". */
static size_t family(const char *key)
{
	return strcspn(key, "0123456789");
}

/* Whether two families are the same, or one is mistyped while the rest of the names is equal. */
static bool same_family(const char *key, const char *other)
{
	const size_t n = family(key), m = family(other);
	char a[MAX_KEY], b[MAX_KEY];

	if (n == m && !memcmp(key, other, n))
		return true;
	snprintf(a, sizeof(a), "%.*s", (int)n, key);
	snprintf(b, sizeof(b), "%.*s", (int)m, other);
	return !strcmp(key + n, other + m) && edit_distance(a, b) == 1;
}

/*
 * Fails for a model whose layers p4d has no formulas for, instead of suggesting other models. The table has
 * the starts of normalized names.
 */
static bool say_unmodelled(const char *name, const char *key, p4d_error *err)
{
	static const struct {
		const char *begins, *has;
	} known[] = {
	    {"qwen35", "gated delta nets (linear attention) in three of four layers"},
	    {"kimilinear", "delta attention in three of four layers"},
	    {"nemotron3super", "experts of a lower rank"},
	    {"falconh1", "Mamba-2 heads next to attention heads"},
	    {"zamba2", "blocks that layers share"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(key, known[i].begins, strlen(known[i].begins))) {
			p4d_fail(err, P4D_E_UNMODELLED, "%.80s has %s, which p4d does not model", name,
				 known[i].has);
			return true;
		}
	return false;
}

/* Fills the error for a name that is no preset, with the most similar names of its family. */
static void fail_unknown(const char *name, const listing *list, p4d_error *err)
{
	char key[MAX_KEY], other[MAX_KEY], names[200], file[200] = "";
	p4d_text text = p4d_text_in(names, sizeof(names));
	/* an organization prefix would only make names less similar */
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	bool related = false, containing = false;

	squeeze(base, strlen(base), key, sizeof(key));
	if (say_unmodelled(base, key, err))
		return;
	unsigned limit = strlen(key) > 6 ? (unsigned)strlen(key) / 3 : 2, shown = 0;
	for (unsigned distance = 0; distance <= limit; distance++) {
		for (int i = 0; i < list->count && shown < NEAREST; i++) {
			size_t length;
			const char *preset = name_at(list, i, &length);
			squeeze(preset, length, other, sizeof(other));
			if (!same_family(key, other))
				continue;
			related = true;
			if (edit_distance(key, other) != distance)
				continue;
			p4d_text_entry(&text, ", ", "%.*s", (int)length, preset);
			shown++;
		}
	}
	/* suggests names that share the distinguishing part, such as "8b" */
	for (int i = 0; i < list->count && !shown; i++) {
		size_t length;
		const char *preset = name_at(list, i, &length);
		squeeze(preset, length, other, sizeof(other));
		containing = containing || strstr(other, key);
	}
	/* a name with bytes that p4d writes as \xNN belongs to no family */
	if (!related && family(key) && !strchr(key, '\\'))
		snprintf(names, sizeof(names), "; p4d knows no model of the family \"%.*s\"",
			 (int)(family(key) < 32 ? family(key) : 32), key);
	if (slash && slash != name)
		snprintf(file, sizeof(file), " (hf download %.128s config.json)", name);
	p4d_fail(err, P4D_E_UNKNOWN_MODEL,
		 "unknown model \"%.128s\"%s%s; for another model, give --p4d-model=PATH/config.json%s, or "
		 "--p4d-model=custom and its sizes",
		 name, shown ? "; nearest: " : "", names, file);
	/* a preset of another model is no fix */
	if (!shown)
		p4d_fix(err, "p4d models%s%.40s", containing ? " " : "", containing ? base : "");
}

/* The file of a preset whose name is spelt like its file. */
static bool find_file(const char *name, const char *datadir, char *path, size_t size)
{
	char file[MAX_KEY + sizeof(suffix)];
	size_t length = strlen(name);

	if (length >= MAX_KEY || name[0] == '.')
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			return false;
		file[i] = (char)tolower((unsigned char)name[i]);
	}
	memcpy(file + length, suffix, sizeof(suffix));
	path_of(datadir, file, path, size);
	return access(path, F_OK) == 0;
}

/* The table row of a preset of this name, in upper or lower case; -1: none. Most requested names have one. */
static int find_row(const char *name)
{
	for (int i = 0; i < (int)p4d_presets_table_count; i++)
		if (!strcasecmp(p4d_presets_name((size_t)i), name))
			return i;
	return -1;
}

typedef struct found {
	int at;              /* -1: none */
	int fits;            /* P4D_HUB_NAME_* */
	int64_t max_seq_len; /* context length that the alias gives; 0: the preset's */
} found;

/* The preset that a name fits best, and how well. A preset's own name wins over aliases. */
static found find(const listing *list, const p4d_hub_name *name)
{
	found best = {.at = list->datadir ? -1 : find_row(name->whole)};
	char own[MAX_KEY];
	size_t length;

	best.fits = best.at < 0 ? P4D_HUB_NAME_NO : P4D_HUB_NAME_DOTTED;
	for (int aliases = 0; aliases < 2; aliases++)
		for (int i = 0; i < list->count && best.fits < P4D_HUB_NAME_DOTTED; i++) {
			const char *preset = name_at(list, i, &length);
			int64_t max_seq_len = 0;
			snprintf(own, sizeof(own), "%.*s", (int)length, preset);
			const int now = aliases ? aliases_fit(list, i, name, &max_seq_len)
						: p4d_model__hub_name_fits(name, own, NULL);
			if (now > best.fits)
				best = (found){i, now, max_seq_len};
		}
	return best;
}

static int load(const listing *list, int i, p4d_request *request, p4d_preset *preset, p4d_error *err)
{
	char path[MAX_PATH];

	if (!list->datadir) {
		p4d_presets_row row = {.preset = {.name = ""}};
		p4d_presets_unpack((size_t)i, &row);
		return p4d_model__take(&row, row.preset.name, request, preset, err);
	}
	path_of(list->datadir, list->file[i]->d_name, path, sizeof(path));
	return p4d_model__read_file(path, request, preset, err);
}

/* Sets the storage of the weights from the name, if the model's file does not have it. */
static void take_stored(const p4d_hub_name *name, int fits, p4d_request *request)
{
	if (fits < P4D_HUB_NAME_BASE && name->stored >= 0)
		p4d_request_default(request, P4D_STORED, name->stored, P4D_BY_MODEL);
}

int p4d_model__preset_load(const char *name, const char *datadir, int least, p4d_request *request,
			   p4d_preset *preset, p4d_error *err, bool *unknown)
{
	const p4d_hub_name hub = p4d_model__hub_name(name);
	char path[MAX_PATH];
	listing list;

	*unknown = false;
	if (datadir && find_file(name, datadir, path, sizeof(path)))
		return p4d_model__read_file(path, request, preset, err);
	if (list_presets(datadir, &list, err) < 0) {
		*unknown = true;
		return -1;
	}
	const found best = find(&list, &hub);
	int rc = -1;
	*unknown = best.at < 0 || best.fits < least;
	if (*unknown)
		fail_unknown(name, &list, err);
	else
		rc = load(&list, best.at, request, preset, err);
	if (rc == 0) {
		take_stored(&hub, best.fits, request);
		p4d_model__take_length(best.max_seq_len, request);
	}
	free_listing(&list);
	return rc;
}

int p4d_model_each(const char *datadir, void (*visit)(const p4d_preset *, const p4d_request *, void *),
		   void *context, p4d_error *err)
{
	listing list;
	int rc = 0;

	if (list_presets(datadir, &list, err) < 0)
		return -1;
	for (int i = 0; i < list.count && rc == 0; i++) {
		p4d_request request = {0};
		p4d_preset preset;
		rc = load(&list, i, &request, &preset, err);
		if (rc == 0)
			visit(&preset, &request, context);
	}
	free_listing(&list);
	return rc;
}
