/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sentencepiece.h"

#include <cstdio>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include <sentencepiece_processor.h>

static_assert(std::is_same<int, int32_t>::value, "pieces are int");

namespace
{
struct model_and_ids {
	sentencepiece::SentencePieceProcessor processor;
	std::vector<int> ids;
};

void explain(const char *text, char *why, size_t size)
{
	std::snprintf(why, size, "%s", text);
}

void *open_model(const char *path, int32_t *pieces, int32_t *end, char *why, size_t size)
try {
	auto *model = new model_and_ids;
	const auto status = model->processor.Load(path);
	if (!status.ok()) {
		/* message() returns a string_view since 0.2.2, and a C string before */
		explain(std::string(status.message()).c_str(), why, size);
		delete model;
		return nullptr;
	}
	*pieces = model->processor.GetPieceSize();
	*end = model->processor.eos_id();
	return model;
} catch (const std::exception &e) {
	explain(e.what(), why, size);
	return nullptr;
}

const int32_t *encode(void *opaque, const char *text, size_t length, size_t *count, char *why, size_t size)
try {
	auto *model = static_cast<model_and_ids *>(opaque);
	const auto status = model->processor.Encode({text, length}, &model->ids);
	if (!status.ok()) {
		explain(std::string(status.message()).c_str(), why, size);
		return nullptr;
	}
	*count = model->ids.size();
	/* data() of an empty vector may be NULL, which would look like a failure */
	model->ids.push_back(-1);
	return model->ids.data();
} catch (const std::exception &e) {
	explain(e.what(), why, size);
	return nullptr;
}

int32_t token(void *opaque, const char *name)
try {
	const auto &processor = static_cast<model_and_ids *>(opaque)->processor;
	const int id = processor.PieceToId(name); /* for a text that is no piece, the library returns the unknown
						   * piece */

	return processor.IdToPiece(id) == name ? id : -1;
} catch (const std::exception &) {
	return -1;
}

const char *piece(void *opaque, int32_t number)
try {
	return static_cast<model_and_ids *>(opaque)->processor.IdToPiece(number).c_str();
} catch (const std::exception &) {
	return "";
}

void close_model(void *opaque)
{
	delete static_cast<model_and_ids *>(opaque);
}
} // namespace

extern "C" const p4d_sentencepiece p4d_sentencepiece__calls = {open_model, encode, token, piece, close_model};
