# SPDX-License-Identifier: Apache-2.0
# A text of words in several languages, code, and characters from all planes, the same everywhere: awk -v bytes=N -f text.awk words
function random(n) {
	state = (state * 16807) % 2147483647
	return state % n
}
function utf8(c) {
	if (c < 128)
		return sprintf("%c", c)
	if (c < 2048)
		return sprintf("%c%c", 192 + int(c / 64), 128 + c % 64)
	if (c < 65536)
		return sprintf("%c%c%c", 224 + int(c / 4096), 128 + int(c / 64) % 64, 128 + c % 64)
	return sprintf("%c%c%c%c", 240 + int(c / 262144), 128 + int(c / 4096) % 64, 128 + int(c / 64) % 64, 128 + c % 64)
}
# A character of Unicode 14 or before, or one that was never assigned: PCRE2 of Debian 12 knows no newer ones.
function any_character(  c) {
	do
		c = some_character()
	while (c == 7305 || c == 7306)
	return utf8(c)
}
function some_character(  kind) {
	kind = random(8)
	if (kind < 2)
		return 160 + random(1000)
	if (kind < 4)
		return 1424 + random(6000)
	if (kind < 5)
		return 7936 + random(2800)
	if (kind < 6)
		return 12288 + random(30000)
	if (kind < 7)
		return 44032 + random(11000)
	return 127744 + random(700)
}
function blank(  kind) {
	kind = random(40)
	if (kind < 26)
		return " "
	if (kind < 29)
		return "\n"
	if (kind < 30)
		return "\n\n  "
	if (kind < 31)
		return "   "
	if (kind < 32)
		return "\t"
	if (kind < 33)
		return ", "
	if (kind < 34)
		return ". "
	if (kind < 35)
		return " \n \n"
	if (kind < 36)
		return "\r\n"
	if (kind < 37)
		return utf8(160)
	if (kind < 38)
		return utf8(12288)
	if (kind < 39)
		return sprintf("%d ", random(100000))
	return ""
}
{
	for (i = 2; i <= NF; i++)
		word[NR, i - 2] = $i
	words[NR] = NF - 1
}
END {
	state = 20241123
	while (length_of_all < bytes) {
		language = 1 + random(NR)
		for (many = 4 + random(40); many > 0; many--) {
			piece = random(50) ? word[language, random(words[language])] : any_character() any_character()
			piece = piece blank()
			length_of_all += length(piece)
			printf "%s", piece
		}
	}
}
