-- SPDX-License-Identifier: Apache-2.0
-- cli_filter.lua: sbatch asks `p4d check` before it submits a job, prints what p4d says, and does not submit a job that p4d
-- refuses. For clusters that take Lua and no C plugins. In slurm.conf of the submit hosts: CliFilterPlugins=lua. This file lies
-- next to slurm.conf, and so does p4d.conf.
--
-- It advises. A user can submit with another slurm.conf or from a host without it, and jobs of srun, salloc and REST and scripts
-- on standard input are not looked at. If p4d is missing, fails or takes too long, sbatch submits the job.

local p4d = "p4d" -- or its path
local seconds = "10" -- that sbatch waits at most

-- A word for a shell, whatever is in it.
local function quoted(word)
	return "'" .. (word:gsub("'", "'\\''")) .. "'"
end

-- The words that were typed: those of `sbatch`, so that p4d reads options, environment and #SBATCH lines as sbatch does.
local function command_line()
	local words = {}
	local file = assert(io.open("/proc/self/cmdline", "rb"))
	for word in file:read("*a"):gmatch("([^%z]*)%z") do
		words[#words + 1] = word
	end
	file:close()
	return words
end

-- The command that asks p4d. What p4d prints on stderr, its messages, begins with "!". nil: there is nothing to ask.
local function question(options)
	local words = command_line()
	local script = options["argv"] or {} -- and its arguments: the last words
	if not words[1]:match("sbatch$") or (#script == 0 and not options["wrap"]) then
		return nil
	end
	local asked = { "timeout -k 1 " .. seconds, quoted(p4d), "check --skip-unknown" }
	for i = 2, #words - #script do
		asked[#asked + 1] = quoted(words[i])
	end
	-- else an option of another plugin could take the script for its value
	if #script > 0 and words[#words - #script] ~= "--" then
		asked[#asked + 1] = "--"
	end
	for i = #words - #script + 1, #words do
		asked[#asked + 1] = quoted(words[i])
	end
	return "exec 2>/dev/null; { " .. table.concat(asked, " ") .. " 2>&1 >&3 3>&- | sed 's/^/!/'; } 3>&1 </dev/null"
end

-- Whether p4d refuses the job, and its messages. Without a verdict there are none.
local function answer(options)
	local command = question(options)
	local messages, judged, refused = {}, false, false
	local pipe = command and io.popen(command)
	if not pipe then
		return false, {}
	end
	for line in pipe:lines() do
		if line:sub(1, 1) == "!" and #messages < 100 then
			messages[#messages + 1] = line:sub(2)
		elseif line:match("^%d*:? ?p4d: would be refused") then
			judged, refused = true, true
		elseif line:match("^%d*:? ?p4d: would pass") or line:match("^%d*:? ?p4d: would be submitted") then
			judged = true
		end
	end
	pipe:close()
	return refused, judged and messages or {}
end

function slurm_cli_pre_submit(options, component)
	if component > 0 then
		return slurm.SUCCESS -- p4d has looked at all components with the first
	end
	local asked, refused, messages = pcall(answer, options)
	if not asked then
		return slurm.SUCCESS
	end
	for _, message in ipairs(messages) do
		io.stderr:write(message, "\n")
	end
	return refused and slurm.ERROR or slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
	return slurm.SUCCESS
end

function slurm_cli_post_submit(component, job, step)
	return slurm.SUCCESS
end

return slurm.SUCCESS
