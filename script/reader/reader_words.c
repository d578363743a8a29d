/* SPDX-License-Identifier: Apache-2.0 */
#include "reader/reader_words.h"

#include <stdint.h>

static const char *const words[] = {
#define READER(name)
#define WORD(text) text,
#include "reader/readers.def"
#undef READER
#undef WORD
};

enum { WORDS = sizeof(words) / sizeof(words[0]), MOST = 64 << 10, BEGINNINGS = 1024 };

/* A number for the first letters of a word. All words have at least three letters. */
static unsigned beginning_of(const char *at)
{
	const unsigned char *letter = (const unsigned char *)at;

	return (letter[0] * 1089u + letter[1] * 33u + letter[2]) % BEGINNINGS;
}

static bool begins(const char *text, size_t length, const char *word)
{
	for (; *word && length && *text == *word; text++, length--)
		word++;
	return !*word;
}

/* Searches for each word by its rarest letters, because this runs for every submitted script. */
bool p4d_reader_may_train(const char *text, size_t length)
{
	/* words with the same beginning, as a linked list; entries are indices plus one */
	uint8_t first[BEGINNINGS] = {0}, next[WORDS + 1];

	length = length < MOST ? length : MOST;
	for (uint8_t i = 1; i <= WORDS; i++) {
		uint8_t *begin = &first[beginning_of(words[i - 1])];
		next[i] = *begin;
		*begin = i;
	}
	for (size_t at = 0; at + 2 < length; at++)
		for (uint8_t i = first[beginning_of(text + at)]; i; i = next[i])
			if (begins(text + at, length - at, words[i - 1]))
				return true;
	return false;
}
