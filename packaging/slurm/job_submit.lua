-- Gives batch jobs that ask for GPUs to arles: they are queued held, and arles decides when and where they run.
--
-- Copy it beside slurm.conf and set JobSubmitPlugins=lua there; 'arles slurm doctor' checks both. What it does not recognise it leaves alone,
-- and if it fails, Slurm submits the job as if it were not there: it must never stand between users and their cluster.
--
-- Settings:
local partitions = {}      -- only these, by name, as {gpu = true}; empty for all
local accounts = {}        -- only these accounts, as {vision = true}; empty for all
local opt_out = "noarles"  -- a job with this word in its comment is left to Slurm
local shards_per_gpu = 0   -- where arles puts two jobs on one GPU (shards = true in its section [slurm]): the shards of each GPU. A job for one GPU
                           -- then asks for so many shards, since Slurm cannot turn a request for a GPU into one for shards later on

local function chosen(set, name)
  return next(set) == nil or (name ~= nil and set[name] == true)
end

local function has_word(text, word)
  for found in string.gmatch(text or "", "%S+") do
    if found == word then return true end
  end
  return false
end

-- What a script says in lines such as '#ARLES workload=resnet50-64 steps=20000', as one line.
local function wishes(script)
  local words = {}
  for line in string.gmatch(script or "", "[^\n]+") do
    local rest = string.match(line, "^#ARLES%s+(.*)$")
    if rest ~= nil and #words < 64 then
      for word in string.gmatch(rest, "%S+") do
        -- Only what arles would read: these words end up in an operator's field.
        if string.match(word, "^[%w%-]+=[%w%.,+:_/%-]+$") or word == "held" then
          table.insert(words, word)
        end
      end
    end
  end
  return table.concat(words, " ")
end

local function wants_gpus(job)
  local text = (job.tres_per_node or "") .. "," .. (job.tres_per_job or "") .. "," .. (job.gres or "")
  return string.find(text, "gpu", 1, true) ~= nil or string.find(text, "shard", 1, true) ~= nil
end

-- Asks for all shards of a GPU instead of for one GPU. The type that the job names becomes a word for arles, since types of shards cannot be changed either.
local function ask_for_shards(job)
  local text = job.tres_per_node or ""
  if text == "" then text = job.tres_per_job or "" elseif (job.tres_per_job or "") ~= "" then return "" end     -- --gpus=1
  local kind = string.match(text, "^gres[:/]gpu:([%a][%w_%-]*):1$") or string.match(text, "^gres[:/]gpu:([%a][%w_%-]*)$")
  local one = kind ~= nil or string.match(text, "^gres[:/]gpu:1$") or string.match(text, "^gres[:/]gpu$")
  local nodes = job.min_nodes or 1
  if not one or (nodes > 1 and nodes < 4294967294) then return "" end
  job.tres_per_job = ""
  job.tres_per_node = "gres:shard:" .. shards_per_gpu
  return kind ~= nil and (" kinds=" .. kind) or ""
end

function slurm_job_submit(job, part_list, uid)
  if job.script == nil or job.script == "" then return slurm.SUCCESS end          -- srun and salloc wait at a terminal
  if not wants_gpus(job) or has_word(job.comment, opt_out) then return slurm.SUCCESS end
  -- Where it runs is its user's or an operator's decision already.
  if (job.req_nodes or "") ~= "" or (job.reservation or "") ~= "" then return slurm.SUCCESS end
  if not chosen(partitions, job.partition or job.default_partition) then return slurm.SUCCESS end
  if not chosen(accounts, job.account or job.default_account) then return slurm.SUCCESS end
  local said = wishes(job.script)
  -- A job that its user wants held stays held in arles, too.
  if job.priority == 0 then said = said .. " held" end
  if shards_per_gpu > 0 then said = said .. ask_for_shards(job) end
  job.admin_comment = "arles " .. said
  job.priority = 0
  return slurm.SUCCESS
end

-- Users may not write the operator's field; Slurm sees to that. Everything else is theirs: scancel, update, time limits.
function slurm_job_modify(job, record, part_list, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
