// SPDX-License-Identifier: Apache-2.0
// node compare.js CALCULATOR P4D MODELS.jsonl [REQUESTS [SEED]]: the calculator's answers to random requests are those of p4d, byte for byte.
"use strict";
const { spawnSync } = require("child_process"), fs = require("fs"), path = require("path");
const [calculator, p4d, models_file, requests = 200, seed = 1] = process.argv.slice(2);

// xorshift: the same requests everywhere
let state = Number(seed) * 2654435761 >>> 0 || 1;
function random(below) {
	state ^= state << 13;
	state ^= state >>> 17;
	state ^= state << 5;
	return (state >>> 0) % below;
}
const pick = list => list[random(list.length)];

// A request has each of them in one of four cases.
const options = {
	framework: ["p4d", "megatron", "fsdp", "deepspeed", "ddp"],
	finetune: ["full", "lora", "qlora"],
	"seq-len": ["512", "1k", "2k", "2048", "4096", "4k", "8k", "auto", "many"],
	"micro-batch": ["1", "2", "4", "16", "auto"],
	"global-batch": ["8", "64", "512", "1024"],
	recompute: ["none", "full"],
	tp: ["1", "2"],
	pp: ["1", "2"],
	precision: ["bf16", "bf16", "fp32", "fp8"],
	mem: ["64G", "2T"],
};

function request(names, gpus, configs) {
	const words = ["estimate", "--json", "--gpus=" + pick([1, 2, 4, 8, 16, 64, 12, 256]), "--gpu=" + (random(40) ? pick(gpus) : "h9000")];
	const pasted = random(4) === 0;
	words.splice(1, 0, pasted ? "./config.json" : random(40) ? pick(names) : "lama3-8b");
	if (pasted)
		fs.writeFileSync("config.json", pick(configs));
	for (const [name, values] of Object.entries(options))
		if (random(4) === 0)
			words.push(`--${name}=${pick(values)}`);
	return words;
}

function native(words) {
	return spawnSync(p4d, words, { encoding: "utf8", env: { ...process.env, SLURM_CONF: "/nonexistent" } }).stdout;
}

// The time that a search took is in its answer.
const timeless = text => text.replace(/"seconds":[0-9.]+,\n  "messages"/, '"messages"');

(async () => {
	let out = [], differ = 0, millis = [];
	const verdicts = {};
	const engine = await require(path.resolve(calculator))({ print: line => out.push(line) });
	const answer = words => {
		out = [];
		if (words.includes("./config.json"))
			engine.FS.writeFile("config.json", fs.readFileSync("config.json", "utf8"));
		const start = process.cpuUsage();
		engine.ccall("p4d_web_answer", "number", ["string"], [words.join("\n")]);
		millis.push(process.cpuUsage(start).user / 1e3);
		if (process.env.P4D_WEB_SLOW && millis[millis.length - 1] > Number(process.env.P4D_WEB_SLOW))
			console.log(`${millis[millis.length - 1].toFixed(1)} ms: p4d ${words.join(" ")}`);
		return out.join("\n") + "\n";
	};
	const compare = words => {
		const expected = timeless(native(words)), found = timeless(answer(words));
		const verdict = JSON.parse(expected).verdict ?? "none";
		verdicts[verdict] = (verdicts[verdict] || 0) + 1;
		if (expected === found)
			return;
		differ++;
		const lines = found.split("\n"), at = expected.split("\n").findIndex((line, i) => line !== lines[i]);
		console.log(`p4d ${words.join(" ")}\n  p4d:        ${expected.split("\n")[at]}\n  calculator: ${lines[at]}`);
	};
	compare(["models", "--json"]);
	compare(["gpus", "--json"]);
	const names = JSON.parse(native(["models", "--json"])).map(model => model.name);
	const gpus = JSON.parse(native(["gpus", "--json"])).map(gpu => gpu.name);
	const configs = fs.readFileSync(models_file, "utf8").trim().split("\n").map(line => JSON.stringify(JSON.parse(line).config));
	for (const model of ["llama3-70b", "llama2-13b"])
		compare(["plan", model, "--gpu=h100", "--gpus=32", "--json"]);
	millis = [];
	for (let i = 0; i < requests; i++)
		compare(request(names, gpus, configs));
	millis.sort((a, b) => a - b);
	console.log(`${requests} requests: ${differ} answers differ; verdicts ${JSON.stringify(verdicts)}; ` +
		`${millis[millis.length >> 1].toFixed(1)} ms of CPU (median), ${millis[Math.floor(millis.length * .95)].toFixed(1)} ms (95 %), ${millis[millis.length - 1].toFixed(1)} ms (longest)`);
	process.exit(differ ? 1 : 0);
})();
