-- SPDX-License-Identifier: Apache-2.0
-- job_submit.lua: slurmctld asks libp4d, and sends a training job to the partition with the smallest GPUs on which it fits. A job
-- says what it trains in its comment:
--
--     sbatch --partition=any --gpus-per-node=4 --comment="p4d llama3-8b --framework=fsdp --micro-batch=2" job.sh
--
-- In slurm.conf: JobSubmitPlugins=lua. This file lies next to slurm.conf; lua_p4d.c in this folder says how Lua gets the module.
--
-- p4d knows only the words of the comment here, with its own models, GPUs and limits. It reads neither the job's script nor p4d.conf. To check
-- jobs by their scripts use JobSubmitPlugins=lua,p4d, which then also judges the partition that this file chose.

local any = "any" -- the partition whose jobs are sent on; in slurm.conf it has the nodes of all places
local places = { -- smallest GPUs first; with the names of `p4d gpus`
	{ partition = "a100", gpu = "a100-40gb" },
	{ partition = "h100", gpu = "h100-80gb" },
}

-- Without the module all jobs stay where they are.
local found, p4d = pcall(require, "lua_p4d")
if not found then
	slurm.log_error("p4d: %s", tostring(p4d))
end

-- The words after "p4d"; nil: the comment has none.
local function words_of(comment)
	local said, words = (comment or ""):match("^p4d%s+(.+)$"), {}
	for word in (said or ""):gmatch("%S+") do
		words[#words + 1] = word
	end
	return said and words
end

-- Nodes and GPUs per node that the job asks for; nil: not in this way ("gres:gpu:4", "gres/gpu:h100:4").
local function size_of(job)
	local gpus = (job.tres_per_node or ""):match("gpu[:%w._-]*[:=](%d+)$")
	local nodes = job.min_nodes
	if not nodes or nodes >= slurm.NO_VAL then
		nodes = 1
	end
	return nodes, gpus
end

-- What p4d says of these words on so many GPUs of a kind.
local function ask(words, gpu, nodes, gpus)
	local asked = {}
	for i, word in ipairs(words) do
		asked[i] = word
	end
	-- p4d answers with an error if the comment has another value
	asked[#asked + 1] = "--gpu=" .. gpu
	asked[#asked + 1] = "--nodes=" .. nodes
	asked[#asked + 1] = "--gpus-per-node=" .. gpus
	return p4d.estimate(unpack(asked))
end

-- Moves the job to the first place where it fits. Else the text that says why there is none.
local function send(job, words, nodes, gpus)
	local said
	for _, place in ipairs(places) do
		said = ask(words, place.gpu, nodes, gpus)
		if said and (said.verdict == "pass" or said.verdict == "warn") then
			job.partition = place.partition
			return nil
		end
	end
	return said and said.message -- nil: no memory, or nothing to judge; the job stays where it is
end

function slurm_job_submit(job, partitions, uid)
	local words = found and job.partition == any and words_of(job.comment)
	local nodes, gpus = size_of(job)
	if not words or not gpus then
		return slurm.SUCCESS
	end
	local why = send(job, words, nodes, gpus)
	if why then
		slurm.log_user("p4d: %s", why)
	end
	return why and slurm.ERROR or slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
