# SPDX-License-Identifier: Apache-2.0
# The sentences of Markdown documents, without code, tables and headings: words, file, text. `sort -n` finds the longest.
FNR == 1 { code = 0; text = "" }
/^```/ { code = !code; sentences(); next }
code || /^[|#]/ || /^!\[/ || /^$/ { sentences(); next }
/^(- |[0-9]+\. )/ { sentences(); sub(/^(- |[0-9]+\. )/, "") }
{ text = text " " $0 }
END { sentences() }
function sentences(    parts, i, words, k, count, some)
{
	gsub(/`[^`]*`/, "x", text)
	gsub(/\]\([^)]*\)/, "]", text)
	parts = split(text, some, /[.:;?!]( |$)/)
	for (i = 1; i <= parts; i++) {
		count = 0
		words = split(some[i], word, /[ \t]+/)
		for (k = 1; k <= words; k++) count += word[k] != ""
		if (count) print count "\t" FILENAME "\t" some[i]
	}
	text = ""
}
