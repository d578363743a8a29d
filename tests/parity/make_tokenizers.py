#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizers: small tokenizers in the forms of released ones, and what they make of one text.

    make_tokenizers.py DIRECTORY            writes NAME.json.gz and `expected` (tokenizers 0.23)
    make_tokenizers.py --compare P4D FILE.json TEXT...      compares the tokens of other texts with `p4d data`
    make_tokenizers.py --speed P4D FILE.json TEXT           MB/s of both, one thread

In `expected`: the name, the number of tokens, the SHA-256 of them as uint16, and the first and the last of them.
"""
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

BYTES = 1100000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" "\r\n" r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
             "\r\n" r"]*|\s*[" "\r\n" r"]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(before, **options):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)], **options)


def special(text, **options):
    return AddedToken(text, special=True, normalized=False, **options)


def template(begin, end=""):
    tokens = [t for t in (begin, end) if t]
    return lambda t: processors.TemplateProcessing(single=" ".join(filter(None, (begin, "$A", end))),
                                                   special_tokens=[(s, t.token_to_id(s)) for s in tokens])


def forms():
    """Name: normalizer, pre-tokenizer, options of the model, special tokens, other added tokens, post-processor."""
    chars = {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    fallback = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    llama2 = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return {
        "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), {}, [special("<|endoftext|>")], [], None),
        "llama3": (None, byte_level([split(LLAMA3)]), {"ignore_merges": True},
                   [special("<|begin_of_text|>"), special("<|end|>")], [], template("<|begin_of_text|>")),
        "qwen2": (normalizers.NFC(), byte_level([split(QWEN2)]), {}, [special("<|endoftext|>"), special("<|im_start|>")],
                  [AddedToken("<tool>", normalized=False)], None),
        "tekken": (None, byte_level([split(TEKKEN)]), {"ignore_merges": True}, [special("<unk>"), special("<s>"), special("</s>")], [],
                   template("<s>")),
        "deepseek3": (normalizers.Sequence([]), byte_level([split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3)]), {},
                      [special("<|end|>", rstrip=True)], [AddedToken("tool", lstrip=True)], None),
        "llama2": (llama2, None, chars, fallback, [], template("<s>", "</s>")),
        "mistral": (None, pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False), chars, fallback, [], template("<s>")),
        "gemma": (normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), chars,
                  fallback + ["<|im_start|>"], [AddedToken("\n\n", normalized=False), AddedToken("▁▁▁", normalized=False)],
                  template("<s>")),
    }


def train(name, form, text):
    normalizer, pre_tokenizer, options, specials, added, post = form
    t = Tokenizer(models.BPE(**options))
    byte = not options.get("byte_fallback")
    if normalizer is not None:
        t.normalizer = normalizer
    # as SentencePiece trains: no token goes beyond a blank
    t.pre_tokenizer = pre_tokenizer if byte else pre_tokenizers.Sequence(
        [p for p in (pre_tokenizer, pre_tokenizers.Split("▁", "merged_with_next")) if p is not None])
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte else []
    names = [s if isinstance(s, AddedToken) else special(s) for s in specials]
    t.train_from_iterator(text.split("\n"), trainers.BpeTrainer(vocab_size=1500 if byte else 1800, initial_alphabet=alphabet,
                                                                limit_alphabet=300, special_tokens=names, show_progress=False))
    if not byte:
        state = json.loads(t.to_str())
        state["pre_tokenizer"] = pre_tokenizer and json.loads(pre_tokenizer.__getstate__())
        state["added_tokens"] = [a for a in state["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(state))
    t.add_tokens(added)
    if post is not None:
        t.post_processor = post(t)
    t.decoder = decoders.ByteLevel() if byte else None
    return t


def tokens_of_p4d(p4d, path, text):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out")
        subprocess.run([p4d, "data", "--tokenizer", path, "--end-token", "none", "-o", out, text], check=True, stdout=subprocess.DEVNULL)
        with open(out + ".bin", "rb") as file:
            data = file.read()
    with open(path, encoding="utf-8") as file:
        wide = len(Tokenizer.from_str(file.read()).get_vocab()) > 65536
    size = 4 if wide else 2
    return [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def compare(p4d, path, texts):
    t = Tokenizer.from_file(path)
    end = t.post_processor is not None and t.encode("").ids[-1:] == [t.token_to_id("</s>")]
    wrong = total = 0
    for text in texts:
        theirs = t.encode(read(text)).ids
        ours = tokens_of_p4d(p4d, path, text)
        theirs = theirs[:-1] if end else theirs
        total += len(theirs)
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            wrong += 1
            print("%s: %d and %d tokens, token %d: %s, reference %s" % (text, len(ours), len(theirs), at,
                  [t.id_to_token(i) for i in ours[at - 3:at + 5]], [t.id_to_token(i) for i in theirs[at - 3:at + 5]]))
    print("%s: %d tokens of %d texts, %d texts differ" % (os.path.basename(path), total, len(texts), wrong))
    return 1 if wrong else 0


def speed(p4d, path, text):
    t = Tokenizer.from_file(path)
    lines = read(text).split("\n")
    size = os.path.getsize(text) / 1e6
    began = time.time()
    for line in lines:
        t.encode(line)
    reference = time.time() - began
    began = time.time()
    subprocess.run([p4d, "data", "--tokenizer", path, "--end-token", "none", "--split-lines", "-o", os.path.join(tempfile.mkdtemp(), "o"), text],
                   check=True, stdout=subprocess.DEVNULL)
    ours = time.time() - began
    print("%s: %.2f MB, tokenizers %.1f MB/s, p4d %.1f MB/s" % (os.path.basename(path), size, size / reference, size / ours))


def main(directory):
    text = subprocess.run(["awk", "-v", "bytes=%d" % BYTES, "-f", os.path.join(directory, "text.awk"), os.path.join(directory, "words")],
                          check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout
    with open(os.path.join(directory, "expected"), "w", encoding="utf-8") as file:
        print("text", len(text), hashlib.sha256(text).hexdigest(), file=file)
        for name, form in forms().items():
            t = train(name, form, text.decode())
            with gzip.GzipFile(os.path.join(directory, name + ".json.gz"), "wb", mtime=0) as out:
                out.write(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")).encode())
            ids = t.encode(text.decode()).ids
            packed = b"".join(i.to_bytes(2, "little") for i in ids)
            print(name, len(ids), hashlib.sha256(packed).hexdigest(), *ids[:12], *ids[-12:], file=file)


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
    if sys.argv[1] == "--speed":
        speed(*sys.argv[2:])
    else:
        main(sys.argv[1])
