#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what transformers makes of conversations with the chat templates in tests/data/templates.

    make_templates.py DIRECTORY             writes conversations.jsonl, tokenizer.json.gz, tokenizer_config.json and `expected`
    make_templates.py DIRECTORY --compare P4D [TEMPLATE...]     compares texts and masks of `p4d data`, also of other templates

Needs transformers 5. `expected` has for each template two lines: with bytes as tokens, and with the tokenizer. Each has the
template, the tokenizer, the number of conversations that the template accepts, of tokens and of those that are trained on, and
the SHA-256 of the tokens and of the mask, as `p4d data` writes them (uint16; bits, the first of a byte in its lowest).

Trained on is what {% generation %} marks. Without that, it is what a conversation up to an assistant's message has more than
the one before with add_generation_prompt; if one of the two is not how the whole begins, the conversation is left out.
"""
import datetime
import glob
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

DATE = (2026, 11, 30)
SPECIAL = """<s> </s> <|im_start|> <|im_end|> <|im_sep|> <|start_header_id|> <|end_header_id|> <|eot_id|> [INST] [/INST]
[TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [IMG]
<start_of_turn> <end_of_turn> <start_of_image> <|system|> <|user|> <|assistant|> <|end|> <|User|> <|Assistant|>
<|end_of_sentence|> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|>
<|start_of_role|> <|end_of_role|> <|end_of_text|> [gMASK] <sop> <|observation|> <|start|> <|message|> <|channel|> <|call|>
<|return|> [|system|] [|user|] [|assistant|] [|endofturn|]""".split()
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*DATE)


chat_template_utils.datetime = Today


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(arguments, number="abcdefgh1", name="weather"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    tools = [
        {"type": "function", "function": {"name": "weather", "description": "weather of a <place> & \"more\"", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "Größe – 城市"}, "days": {"type": "integer", "enum": [1, 2]},
                "list": {"type": "array", "items": {"type": "number"}}, "either": {"type": ["string", "null"], "default": None},
                "unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["city"]}, "return": {"type": "string"}}},
        {"type": "function", "function": {"name": "noop", "description": "Nothing", "parameters": {
            "type": "object", "properties": {}}}}]
    lines = [
        {"messages": [user("Hi"), assistant("Hello!")]},
        {"messages": [system("Be brief."), user("Hi "), assistant(" Hey!\n"), user("\n Bye"), assistant("So long")]},
        {"messages": [system("  You \n\n"), user("Grüße 你好 🙂 \u00a0x\u3000"), assistant("\u00a0ok é\u2028"),
                      user("a\tb\\n{{x}} {% y %} <|im_end|>"), assistant("'q' \"d\" <think>in</think>out")]},
        {"messages": [user(""), assistant("")]},
        {"messages": [user("Cafe\u0301"), assistant("e\u0301te\u0301 A\u030angstro\u0308m")]},
        {"messages": [user("Why?"), assistant("<think>\nreason\n</think>\n\nanswer"), user("more"),
                      assistant("<think>\n\n</think>\n\nend")]},
        {"messages": [user("Why?"), assistant("because", reasoning_content=" first\nthen ", thinking=None)]},
        {"messages": [user("Weather?"), assistant("", tool_calls=[call({"city": "Köln", "f": 1.50, "b": True, "n": None,
                                                                        "l": [1, "a", 1e20, -2.5e-7], "o": {}})]),
                      {"role": "tool", "content": "{\"t\": 3}", "name": "weather", "tool_call_id": "abcdefgh1"},
                      assistant("Cold")], "tools": tools},
        {"messages": [system("You"), user("Weather?"),
                      assistant("Let me see", tool_calls=[call("{\"city\": \"Köln\"}"), call({"city": "Rom"}, "abcdefgh2")]),
                      {"role": "tool", "content": "3 C", "name": "weather", "tool_call_id": "abcdefgh1"},
                      {"role": "tool", "content": "9 C", "name": "weather", "tool_call_id": "abcdefgh2"},
                      assistant("Cold"), user("thanks"), assistant("bye")], "tools": json.dumps(tools[:1])},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": " two "}]},
                      {"role": "assistant", "content": [{"type": "text", "text": "answer"}]}]},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "You"}]},
                      {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}]}, assistant("seen")]},
        {"messages": [user("a"), assistant("b"), user("c")], "chat_template_kwargs": {"enable_thinking": False}},
        {"messages": [user("a"), user("b"), assistant("c"), assistant("d")], "chat_template_kwargs": {"controls": {"length": 3}}},
        {"messages": [{"role": "developer", "content": "Be kind"}, user("a"), assistant("b", reasoning="hm")], "tools": tools},
        {"messages": [user("a"), {"role": "assistant", "tool_calls": [call({}, name="noop")]},
                      {"role": "tool", "name": "noop", "content": {"ok": True, "x": [1, 2.5]}, "tool_call_id": "abcdefgh1"},
                      assistant("d")], "tools": tools[1:], "chat_template_kwargs": {"reasoning_effort": "high"}},
        {"messages": [system("x /no_think"), user("a\n\n\nb"), assistant("    d\n  e\n"), system("late"), user("z"),
                      assistant("w " * 40)]},
    ]
    return lines


def make_tokenizer(directory):
    with gzip.open(os.path.join(directory, "../tokenizers/qwen2.json.gz"), "rt") as f:
        made = Tokenizer.from_str(f.read())
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    made.add_tokens([AddedToken(t, normalized=False) for t in ADDED])
    with open(os.path.join(directory, "tokenizer.json.gz"), "wb") as raw:
        with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
            out.write(made.to_str().encode())
    with open(os.path.join(directory, "tokenizer_config.json"), "w") as out:
        json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}}, out)
        out.write("\n")


class Bytes:
    """Bytes as tokens, with what transformers makes of the template."""
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode(self, text):
        at = [len(text[:i].encode()) for i in range(len(text) + 1)]
        owner = [i for i in range(len(text)) for _ in range(at[i], at[i + 1])]
        return list(text.encode()), [(i, i + 1) for i in owner]


class Tokens(Bytes):
    def encode(self, text):
        made = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return made["input_ids"], made["offset_mapping"]


def render(tokenizer, template, line, messages, ask):
    tools = line.get("tools")
    tools = json.loads(tools) if isinstance(tools, str) else tools
    if not messages:  # transformers refuses it; templates may not
        return chat_template_utils.render_jinja_template(
            [[]], tools=tools, chat_template=template, add_generation_prompt=ask,
            **{**tokenizer.special_tokens_map, **line.get("chat_template_kwargs", {})})[0][0]
    return tokenizer.apply_chat_template(messages, tools=tools, chat_template=template, add_generation_prompt=ask, tokenize=False,
                                         **line.get("chat_template_kwargs", {}))


def spans(tokenizer, template, line, text):
    """Where the text is trained on; None: that is not known."""
    messages = line["messages"]
    if re.search(r"\{%-?\s*generation\s*-?%\}", template):
        tools = line.get("tools")
        tools = json.loads(tools) if isinstance(tools, str) else tools
        found = chat_template_utils.render_jinja_template(
            [chat_template_utils._normalize_chat_messages(messages)], tools=tools, chat_template=template,
            return_assistant_tokens_mask=True,
            **{**tokenizer.special_tokens_map, **line.get("chat_template_kwargs", {})})[1][0]
        return [s for s in found if s[0] < s[1]] or None
    found = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(tokenizer, template, line, messages[:i], True)
        behind = render(tokenizer, template, line, messages[:i + 1], False)
        if not text.startswith(before) or not text.startswith(behind) or len(behind) < len(before):
            return None
        found.append((len(before), len(behind)))
    return found or None


def converted(tokenizer, template, lines, tokens):
    """Conversations that are accepted: number, text, tokens, mask."""
    for number, line in enumerate(lines):
        try:
            text = render(tokenizer, template, line, line["messages"], False)
            answers = spans(tokenizer, template, line, text)
        except Exception:  # whatever the template does wrong
            continue
        if answers is None:
            continue
        ids, offsets = tokens.encode(text)
        yield number, text, ids, [any(f < end and begin < t for f, t in answers) for begin, end in offsets]


def bits(mask):
    made = bytearray((len(mask) + 7) // 8)
    for i, on in enumerate(mask):
        made[i // 8] |= on << i % 8
    return bytes(made)


def load(directory):
    with gzip.open(os.path.join(directory, "tokenizer.json.gz"), "rt") as f:
        return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(f.read()), bos_token="<s>", eos_token="</s>")


def write(directory):
    make_tokenizer(directory)
    lines = conversations()
    with open(os.path.join(directory, "conversations.jsonl"), "w") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    tokenizer = load(directory)
    with open(os.path.join(directory, "expected"), "w") as out:
        for path in sorted(glob.glob(os.path.join(directory, "*.jinja"))):
            with open(path) as f:
                template = f.read()
            for name, tokens in (("bytes", Bytes(tokenizer)), ("tokenizer", Tokens(tokenizer))):
                ids, mask, count = [], [], 0
                for _, _, some, trained in converted(tokenizer, template, lines, tokens):
                    ids += some
                    mask += trained
                    count += 1
                packed = b"".join(i.to_bytes(2, "little") for i in ids)
                print(os.path.basename(path), name, count, len(ids), sum(mask), hashlib.sha256(packed).hexdigest(),
                      hashlib.sha256(bits(mask)).hexdigest(), file=out)


def compare(directory, p4d, paths):
    tokenizer = load(directory)
    lines = conversations()
    same = other = 0
    with tempfile.TemporaryDirectory() as work:
        with gzip.open(os.path.join(directory, "tokenizer.json.gz"), "rb") as f, open(work + "/tokenizer.json", "wb") as out:
            out.write(f.read())
        with open(work + "/tokenizer_config.json", "w") as out:
            json.dump({"bos_token": "<s>", "eos_token": "</s>"}, out)
        for path in paths or sorted(glob.glob(os.path.join(directory, "*.jinja"))):
            with open(path) as f:
                template = f.read()
            with open(work + "/template.jinja", "w") as out:  # next to the special tokens
                out.write(template)
            for name, tokens in (("bytes", Bytes(tokenizer)), (work, Tokens(tokenizer))):
                theirs = {n: (text, ids, mask) for n, text, ids, mask in converted(tokenizer, template, lines, tokens)}
                for number, line in enumerate(lines):
                    with open(work + "/line.jsonl", "w") as out:
                        out.write(json.dumps(line) + "\n")
                    made = subprocess.run([p4d, "data", "--tokenizer", name, "--chat", work + "/template.jinja", "--chat-date", "2026-11-30", "-o",
                                           work + "/out", work + "/line.jsonl"], capture_output=True, text=True)
                    ours = None
                    if made.returncode == 0:
                        with open(work + "/out.bin", "rb") as f:
                            data = f.read()
                        with open(work + "/out.mask", "rb") as f:
                            on = f.read()[16:]
                        ids = [int.from_bytes(data[i:i + 2], "little") for i in range(0, len(data), 2)]
                        ours = (ids, [bool(on[i // 8] >> i % 8 & 1) for i in range(len(ids))])
                    if ours == (theirs[number][1:] if number in theirs else None):
                        same += 1
                        continue
                    other += 1
                    print(f"{path} {name} line {number + 1}: {made.stderr.strip() or ours}\n   {theirs.get(number)}")
    print(f"{same} of {same + other} conversations are the same")
    return other > 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write(sys.argv[1])
    elif len(sys.argv) > 3 and sys.argv[2] == "--compare":
        sys.exit(compare(sys.argv[1], sys.argv[3], sys.argv[4:]))
    else:
        sys.exit(__doc__)
