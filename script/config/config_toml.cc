/* SPDX-License-Identifier: Apache-2.0 */
/* Parses TOML with toml++. */
#include <algorithm>
#include <cstdio>
#include <exception>
#include <istream>
#include <streambuf>
#include <string>
#include <string_view>
#include <toml++/toml.h>

#include "config.h"

extern "C" {
#include "config/config_internal.h"
}

namespace
{

p4d_config_node *node_of(p4d_config *tree, const toml::node &value, int depth);

/* A number, written as users type it in p4d's options. */
std::string text_of(const toml::node &value)
{
	char number[64];

	if (auto text = value.as_string())
		return text->get();
	if (auto whole = value.as_integer())
		return std::to_string(whole->get());
	if (auto flag = value.as_boolean())
		return flag->get() ? "true" : "false";
	if (auto real = value.as_floating_point()) {
		std::snprintf(number, sizeof(number), "%.17g", real->get());
		return number;
	}
	return ""; /* a date */
}

bool add(p4d_config *tree, p4d_config_entries *entries, const std::string_view *key, const toml::node &value,
	 int depth)
{
	p4d_config_node *node = node_of(tree, value, depth + 1);

	if (!node)
		return false;
	if (key && !(node->key = p4d_config__text(tree, key->data(), key->size())))
		return false;
	p4d_config__add(entries, node);
	return true;
}

p4d_config_node *node_of(p4d_config *tree, const toml::node &value, int depth)
{
	const p4d_config_kind kind = value.is_table()   ? P4D_CONFIG_MAP
				     : value.is_array() ? P4D_CONFIG_LIST
							: P4D_CONFIG_SCALAR;
	p4d_config_node *node = p4d_config__node(tree, kind, value.source().begin.line);
	p4d_config_entries entries = {node, nullptr};

	if (!node)
		return nullptr;
	if (depth == P4D_CONFIG_DEPTH) {
		p4d_config__fail(tree, "the file is nested deeper than %d levels", P4D_CONFIG_DEPTH);
		return nullptr;
	}
	if (kind == P4D_CONFIG_SCALAR) {
		const std::string text = text_of(value);
		node->text = p4d_config__text(tree, text.data(), text.size());
		return node->text ? node : nullptr;
	}
	if (auto table = value.as_table()) {
		for (auto &&[key, entry] : *table) {
			const std::string_view name = key.str();
			if (!add(tree, &entries, &name, entry, depth))
				return nullptr;
		}
	}
	if (auto array = value.as_array()) {
		for (auto &&entry : *array)
			if (!add(tree, &entries, nullptr, entry, depth))
				return nullptr;
	}
	return node;
}

/* Gives toml++ the text in pieces; no piece follows when the time limit is exceeded. */
class pieces : public std::streambuf
{
      public:
	pieces(p4d_config *config, const char *text, size_t length)
	    : tree(config), first(const_cast<char *>(text)), at(first), end(first + length)
	{
	}
	bool late = false;

      protected:
	int_type underflow() override
	{
		char *const from = at;
		const size_t left = static_cast<size_t>(end - at);

		late = late || p4d_config__late(tree);
		if (late || !left)
			return traits_type::eof();
		at += std::min<size_t>(left, P4D_CONFIG_PIECE);
		setg(from, from, at);
		return traits_type::to_int_type(*from);
	}

	/* toml++ looks for a byte order mark, then seeks back */
	pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override
	{
		char *const here = from == std::ios_base::cur ? (gptr() ? gptr() : at) : first;

		if (from == std::ios_base::end || offset < first - here || offset > end - here)
			return pos_type(off_type(-1));
		at = here + offset;
		setg(at, at, at);
		return pos_type(at - first);
	}

      private:
	p4d_config *tree;
	char *first, *at, *end;
};

/* No exception leaves the library. */
bool read_toml(p4d_config *tree, const char *text, size_t length)
{
	if (length > P4D_CONFIG_BYTES)
		return p4d_config__fail(tree, "the file has more than %d bytes", P4D_CONFIG_BYTES);
	pieces buffer(tree, text, length);
	try {
		std::istream stream(&buffer);
		const toml::table table = toml::parse(stream);
		if (buffer.late)
			return false;
		tree->root = node_of(tree, table, 0);
		return tree->root != nullptr;
	} catch (const toml::parse_error &error) {
		return !buffer.late &&
		       p4d_config__fail(tree, "line %u: %.80s", (unsigned)error.source().begin.line,
					std::string(error.description()).c_str());
	} catch (const std::exception &error) {
		return p4d_config__fail(tree, "%.100s", error.what());
	}
}

} // namespace

const p4d_config_module p4d_config__toml = {PACKAGE_VERSION, read_toml};
