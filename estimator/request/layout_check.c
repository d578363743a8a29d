/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which values of a filled layout exclude each other, and finds numbers that would work. */
#include "request/layout_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "request/framework.h"
#include "request/layers.h"

enum { LISTED = 12 };

/* The smallest divisor of `whole` above its divisor n; 0: none. Divisors above the root are quotients
 * of those below it, so finding all of them takes at most twice the root in steps. */
static uint64_t next_divisor(uint64_t whole, uint64_t n)
{
	uint64_t d = n + 1;

	for (; d <= whole / d; d++)
		if (whole % d == 0)
			return d;
	for (d = d - 1 < whole / n ? d - 1 : whole / n; d; d--)
		if (whole % d == 0 && whole / d > n)
			return whole / d;
	return 0;
}

uint64_t p4d_layout__list(const p4d_layout *layout, p4d_layout__works works, uint64_t whole, uint64_t highest,
			  uint64_t wanted, char *buf, size_t size)
{
	uint64_t nearest = 0, count = 0;
	p4d_text text = p4d_text_in(buf, size);

	for (uint64_t n = 1; n && n <= highest; n = next_divisor(whole, n)) {
		if (!works(layout, n))
			continue;
		uint64_t gap = n > wanted ? n - wanted : wanted - n;
		uint64_t best = nearest > wanted ? nearest - wanted : wanted - nearest;
		if (!nearest || gap <= best)
			nearest = n;
		if (count++ < LISTED)
			p4d_text_entry(&text, ", ", "%" PRIu64, n);
	}
	if (count > LISTED)
		p4d_text_add(&text, ", ...");
	return nearest;
}

bool p4d_layout_kv_heads_work(int framework, uint64_t kv_heads, uint64_t tp)
{
	return kv_heads % tp == 0 || (tp % kv_heads == 0 && p4d_framework_of(framework)->copies_kv_heads);
}

static bool tp_works(const p4d_layout *l, uint64_t tp)
{
	return l->heads % tp == 0 && p4d_layout_kv_heads_work(l->framework, l->kv_heads, tp) &&
	       l->ffn % tp == 0 && l->shared_ffn % tp == 0 && l->hidden % tp == 0 && p4d_tp_is_linked(l, tp);
}

/* Lists the numbers that would work for tp, and returns the nearest one. */
static uint64_t list_tp(const p4d_layout *l, char *buf, size_t size)
{
	const uint64_t most = (uint64_t)p4d_request_option_info(P4D_TP)->max;

	return p4d_layout__list(l, tp_works, l->heads, most, p4d_tp_ranks(l), buf, size);
}

/* Adds a fix with another tp. A grid becomes one-dimensional, because such a grid exists for every tp. */
static int fix_tp(const p4d_request *r, uint64_t tp, p4d_error *err)
{
	return p4d_is_set(r, P4D_TP_GRID)
		   ? p4d_fix(err, "--p4d-tp=%" PRIu64 " --p4d-tp-grid=%" PRIu64 ",1,1", tp, tp)
		   : p4d_fix(err, "--p4d-tp=%" PRIu64, tp);
}

static int fail_tp(const p4d_request *r, const p4d_layout *l, p4d_code code, const char *what,
		   uint64_t number, p4d_error *err)
{
	char list[160];
	uint64_t nearest = list_tp(l, list, sizeof(list));

	const bool copies = code == P4D_E_KV_HEADS && p4d_framework_of(l->framework)->copies_kv_heads;

	p4d_fail(err, code,
		 "tp=%" PRIu64 " %s the %" PRIu64 " %s; with %" PRIu64 " heads, %" PRIu64
		 " key/value heads and %" PRIu64 " GPUs per node tp can be %s",
		 l->tp, copies ? "neither divides nor is a multiple of" : "does not divide", number, what,
		 l->heads, l->kv_heads, l->gpus_per_node, list);
	return fix_tp(r, nearest, err);
}

/* Refuses tensor parallelism across nodes. */
static int fail_links(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	char list[160], domain[64] = "";
	const uint64_t nearest = list_tp(l, list, sizeof(list));

	if (l->link_domain > l->gpus_per_node)
		snprintf(domain, sizeof(domain), ", or whole nodes of the %" PRIu64 " on NVLink",
			 l->link_domain);
	if (p4d_tp_ranks(l) == l->tp)
		p4d_fail(err, P4D_E_TP_NODE,
			 "tp=%" PRIu64 " does not divide the %" PRIu64 " GPUs of a node%s; tp can be %s",
			 l->tp, l->gpus_per_node, domain, list);
	else if (!p4d_tp_is_linked(l, l->tp * l->tp_y))
		p4d_fail(err, P4D_E_TP_NODE,
			 "tp-grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ": X*Y = %" PRIu64
			 " does not divide the %" PRIu64 " GPUs of a node%s",
			 l->tp, l->tp_y, l->tp_z, l->tp * l->tp_y, l->gpus_per_node, domain);
	else
		p4d_fail(err, P4D_E_TP_NODE,
			 "tp-grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ": its %" PRIu64
			 " ranks neither divide the %" PRIu64 " GPUs of a node nor fill whole nodes",
			 l->tp, l->tp_y, l->tp_z, p4d_tp_ranks(l), l->gpus_per_node);
	return fix_tp(r, nearest, err);
}

static int check_tensor(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	if (l->heads % l->tp)
		return fail_tp(r, l, P4D_E_HEADS, "attention heads", l->heads, err);
	if (!p4d_layout_kv_heads_work(l->framework, l->kv_heads, l->tp))
		return fail_tp(r, l, P4D_E_KV_HEADS, "key/value heads", l->kv_heads, err);
	if (l->ffn % l->tp)
		return fail_tp(r, l, P4D_E_WIDTH, "columns of the feed-forward layer", l->ffn, err);
	if (l->shared_ffn % l->tp)
		return fail_tp(r, l, P4D_E_WIDTH, "columns of the shared experts", l->shared_ffn, err);
	if (l->hidden % l->tp)
		return fail_tp(r, l, P4D_E_WIDTH, "columns of the hidden layer", l->hidden, err);
	if (!p4d_grid_is_linked(l, (p4d_tp_grid){l->tp, l->tp_y, l->tp_z}))
		return fail_links(r, l, err);
	return 0;
}

static int check_world(p4d_layout *l, p4d_error *err)
{
	uint64_t tp = p4d_tp_ranks(l), model = tp * l->cp * l->pp; /* each <= 4096: cannot overflow */

	if (l->world % model) {
		uint64_t above = (l->world / model + 1) * model;
		p4d_fail(err, P4D_E_WORLD,
			 "%" PRIu64 " GPUs are not a multiple of tp*cp*pp = %" PRIu64 "*%" PRIu64 "*%" PRIu64
			 " = %" PRIu64 "; use %" PRIu64 " GPUs, or a product that divides %" PRIu64,
			 l->world, tp, l->cp, l->pp, model, above, l->world);
		if (above % l->gpus_per_node == 0)
			p4d_fix(err, "--nodes=%" PRIu64 " --gpus-per-node=%" PRIu64, above / l->gpus_per_node,
				l->gpus_per_node);
		else if (l->world % tp == 0)
			p4d_fix(err, "--p4d-tp=%" PRIu64 " --p4d-cp=1 --p4d-pp=1", tp);
		return -1;
	}
	l->dp = l->world / model;
	return 0;
}

/* The largest multiple of `unit` up to n; `unit` itself if n is smaller. */
static uint64_t multiple_near(uint64_t n, uint64_t unit)
{
	return n < unit ? unit : n / unit * unit;
}

static int check_sequence(const p4d_layout *l, p4d_error *err)
{
	uint64_t unit = (l->cp > 1 ? 2 * l->cp : 1) * (l->sequence_parallel ? l->tp : 1);

	if (l->seq_len % unit == 0)
		return 0;
	const uint64_t near = multiple_near(l->seq_len, unit);
	p4d_fail(err, P4D_E_SEQUENCE,
		 "seq-len=%" PRIu64 " is not a multiple of %" PRIu64 " (%scp=%" PRIu64
		 "%s); seq-len can be %" PRIu64 " or %" PRIu64,
		 l->seq_len, unit, l->cp > 1 ? "2 x " : "", l->cp, l->sequence_parallel ? ", times tp" : "",
		 near, near + unit);
	return p4d_fix(err, "--p4d-seq-len=%" PRIu64, near);
}

/* Checks --cp-heads: both degrees of the hierarchy must be above one. */
static int check_hierarchy(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const uint64_t asked = p4d_is_stated(r, P4D_CP_HEADS) ? (uint64_t)r->value[P4D_CP_HEADS] : 1;

	if (asked == 1 && l->megatron.cp_heads == 1)
		return 0;
	if (l->megatron.cp_heads > 1 && l->cp > l->megatron.cp_heads && l->cp % l->megatron.cp_heads == 0 &&
	    p4d_rank_kv_heads(l) % l->megatron.cp_heads == 0)
		return 0;
	return p4d_fail(err, P4D_E_VALUE,
			"cp-heads=%" PRIu64 " needs cp-comm=p2p; it must be above 1, below cp=%" PRIu64
			" and a divisor of it, and divide the %" PRIu64 " kv-heads of a rank",
			asked > 1 ? asked : l->megatron.cp_heads, l->cp, p4d_rank_kv_heads(l));
}

/* Checks context parallelism by exchange of heads (a2a), which exchanges whole heads. */
static int check_heads(const p4d_layout *l, p4d_error *err)
{
	if (l->cp_comm != P4D_CP_A2A || p4d_rank_kv_heads(l) % l->cp == 0)
		return 0; /* no more checks: heads are a multiple of kv-heads */
	p4d_fail(err, P4D_E_KV_HEADS,
		 "cp-comm=a2a: cp=%" PRIu64 " must divide the kv-heads of a rank; with tp=%" PRIu64
		 " these are %" PRIu64,
		 l->cp, l->tp, p4d_rank_kv_heads(l));
	return p4d_fix(err, "--p4d-cp-comm=p2p");
}

/* Checks recompute-layers, the size of the groups into which Megatron-LM's method uniform divides a chunk. */
static int check_recompute(const p4d_layout *l, p4d_error *err)
{
	if (l->recompute != P4D_RECOMPUTE_FULL || l->megatron.recompute_block ||
	    l->megatron.recompute_layers == 1)
		return 0;
	for (uint32_t stage = 0; stage < l->pp; stage++)
		for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
			const uint32_t layers = p4d_chunk_layers(l, stage, chunk);
			if (layers % l->megatron.recompute_layers == 0)
				continue;
			p4d_fail(err, P4D_E_VALUE,
				 "recompute-layers=%" PRIu64 " does not divide the %" PRIu32
				 " layers of a chunk",
				 l->megatron.recompute_layers, layers);
			return p4d_fix(err, "--p4d-recompute-layers=1");
		}
	return 0;
}

/* Checks --shard-degree N: each group of N of the dp*cp ranks shards one copy of the parameters. */
static int check_shards(const p4d_layout *l, p4d_error *err)
{
	const uint64_t ranks = l->dp * l->cp;

	if (!l->shard_degree || ranks % l->shard_degree == 0)
		return 0;
	p4d_fail(err, P4D_E_WORLD, "shard-degree=%" PRIu64 " does not divide dp*cp = %" PRIu64 "*%" PRIu64,
		 l->shard_degree, l->dp, l->cp);
	return p4d_fix(err, "--p4d-shard-degree=%" PRIu64, ranks);
}

static int check_batch(p4d_layout *l, p4d_error *err)
{
	uint64_t unit = l->micro_batch * l->dp;

	if (l->global_batch % unit) {
		const uint64_t near = multiple_near(l->global_batch, unit);
		p4d_fail(err, P4D_E_BATCH,
			 "global-batch=%" PRIu64 " is not a multiple of micro-batch=%" PRIu64 " x dp=%" PRIu64
			 " = %" PRIu64 "; global-batch can be %" PRIu64 " or %" PRIu64,
			 l->global_batch, l->micro_batch, l->dp, unit, near, near + unit);
		if (l->global_batch % l->dp == 0)
			return p4d_fix(err, "--p4d-micro-batch=1");
		return p4d_fix(err, "--p4d-global-batch=%" PRIu64, (l->global_batch / unit + 1) * unit);
	}
	l->micro_batches = l->global_batch / unit;
	return 0;
}

#define NAME(id, symbol, name) [P4D_##id] = name,
static const char *const schedule_name[P4D_SCHEDULES] = {P4D_SCHEDULE_LIST(NAME)};

/*
 * Whether the micro-batches divide into groups for an interleaved schedule. A group has as many micro-batches
 * as there are stages. PyTorch also allows larger groups, and runs fewer micro-batches as one group.
 */
static bool groups_divide(const p4d_layout *l)
{
	const uint64_t groups = l->micro_batches < l->pp ? 1 : l->micro_batches / l->pp;

	return l->micro_batches % (p4d_framework_of(l->framework)->spreads_remainders ? groups : l->pp) == 0;
}

static int check_vocabulary(const p4d_layout *l, p4d_error *err)
{
	char able[80] = ""; /* schedules that would work, such as "1f1b or v-half" */
	size_t used = 0;

	if (l->vocab_parallel == P4D_VOCAB_OFF || (l->pp > 1 && p4d_schedule_kinds[l->schedule]->vocabulary))
		return 0;
	for (int i = 0; i < P4D_SCHEDULES && used < sizeof(able); i++)
		if (p4d_schedule_kinds[i]->vocabulary)
			used += (size_t)snprintf(able + used, sizeof(able) - used, "%s%s", used ? " or " : "",
						 schedule_name[i]);
	p4d_fail(err, P4D_E_SCHEDULE,
		 "vocab-parallel needs pp > 1 and schedule=%s, not pp=%" PRIu64 " schedule=%s", able, l->pp,
		 schedule_name[l->schedule]);
	return p4d_fix(err, "--p4d-vocab-parallel=off");
}

/* Checks --local-loss. What the model learns depends on a stage's layers, so only the user chooses them. */
static int check_local_loss(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const bool stages = p4d_is_stated(r, P4D_PP),
		   split = !p4d_is_set(r, P4D_PIPELINE_SPLIT) || p4d_is_stated(r, P4D_PIPELINE_SPLIT);
	const struct {
		bool differs;
		const char *why, *fix;
	} all[] = {
	    {!stages || !split,
	     "trains a different model for each division into stages, so pp and pipeline-split must be given",
	     "--p4d-local-loss=off"},
	    {l->pp == 1, "needs pp > 1: a single stage has only the model's own loss",
	     "--p4d-local-loss=off"},
	    {l->finetune != P4D_TUNE_FULL, "trains heads; finetune=lora trains only adapters",
	     "--p4d-local-loss=off"},
	    {l->vocab_parallel != P4D_VOCAB_OFF,
	     "gives every stage its own head, but vocab-parallel shards one head over all stages",
	     "--p4d-vocab-parallel=off"},
	    {l->zero_stage > P4D_SHARD_STATES && !(l->offload & P4D_OFFLOAD_PARAMS),
	     "can shard optimizer states, but not gradients and parameters",
	     "--p4d-optimizer-sharding=states"},
	    {l->slices > 1, "runs whole micro-batches, not token-slices", "--p4d-token-slices=1"},
	    {l->schedule != P4D_1F1B, "needs schedule=1f1b: a backward pass follows its forward pass",
	     "--p4d-schedule=1f1b --p4d-vpp=1"},
	};

	for (size_t i = 0; l->local_loss && i < sizeof(all) / sizeof(*all); i++)
		if (all[i].differs) {
			p4d_fail(err, P4D_E_SCHEDULE, "local-loss=stage %s", all[i].why);
			return p4d_fix(err, "%s", all[i].fix);
		}
	return 0;
}

static int check_schedule(const p4d_layout *l, p4d_error *err)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[l->schedule];
	const uint32_t chunks = kind->chunks;

	if (chunks == 1 && l->vpp != 1) {
		p4d_fail(err, P4D_E_SCHEDULE, "vpp=%" PRIu64 " needs the interleaved schedule", l->vpp);
		return p4d_fix(err, "--p4d-schedule=interleaved");
	}
	if (chunks != 1 && (l->pp == 1 || (chunks ? l->vpp != chunks : l->vpp == 1))) {
		p4d_fail(err, P4D_E_SCHEDULE,
			 "schedule=%s needs pp > 1 and vpp %s %u, not pp=%" PRIu64 " vpp=%" PRIu64,
			 schedule_name[l->schedule], chunks ? "=" : ">", chunks ? chunks : 1, l->pp, l->vpp);
		if (l->pp > 1 && chunks)
			return p4d_fix(err, "--p4d-vpp=%u", chunks);
		return p4d_fix(err, "--p4d-schedule=1f1b --p4d-vpp=1");
	}
	if (kind->in_groups && !groups_divide(l)) {
		uint64_t unit = l->micro_batch * l->dp * l->pp;
		p4d_fail(err, P4D_E_SCHEDULE,
			 "schedule=%s needs a number of micro-batches that is a multiple of pp=%" PRIu64
			 ", not %" PRIu64,
			 schedule_name[l->schedule], l->pp, l->micro_batches);
		return p4d_fix(err, "--p4d-global-batch=%" PRIu64, (l->global_batch / unit + 1) * unit);
	}
	return check_vocabulary(l, err);
}

/* Refuses options of FP8 that have no effect without FP8. */
static int check_fp8(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	static const p4d_option of_fp8[] = {P4D_FP8_RECIPE, P4D_FP8_PARAM_GATHER};

	for (size_t i = 0; i < sizeof(of_fp8) / sizeof(of_fp8[0]) && l->precision != P4D_FP8; i++) {
		if (!p4d_is_stated(r, of_fp8[i]) || (of_fp8[i] == P4D_FP8_PARAM_GATHER && !l->fp8_params))
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s needs precision=fp8",
			 p4d_request_option_info(of_fp8[i])->name);
		return p4d_fix(err, "--p4d-precision=fp8");
	}
	return 0;
}

/* Checks --adam-copies, which has no effect on moments in fp32. */
static int check_copies(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	if (l->half_moments || !p4d_is_stated(r, P4D_ADAM_COPIES) || !r->value[P4D_ADAM_COPIES])
		return 0;
	p4d_fail(err, P4D_E_VALUE, "adam-copies needs optimizer-dtype=bf16");
	return p4d_fix(err, "--p4d-optimizer-dtype=bf16");
}

static int check_foreach(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	char name[24];

	if (!l->torch.optimizer_foreach || l->optimizer == P4D_ADAMW)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "optimizer-foreach has no effect with optimizer=%s",
		 p4d_request_value_text(r, P4D_OPTIMIZER, name, sizeof(name)));
	return p4d_fix(err, "leave out --p4d-optimizer-foreach");
}

/*
 * Checks types of states. 16-bit gradients must have the type of the parameters, and Megatron-LM's
 * precision-aware optimizer is always sharded.
 */
static int check_types(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	static const int half[] = {[P4D_BF16] = P4D_GRAD_BF16,
				   [P4D_FP16] = P4D_GRAD_FP16,
				   [P4D_FP32] = P4D_GRAD_FP32,
				   [P4D_FP8] = P4D_GRAD_BF16};
	char name[16], precision[16];

	if (check_fp8(r, l, err) < 0 || check_copies(r, l, err) < 0 || check_foreach(r, l, err) < 0)
		return -1;
	if (l->grad_dtype != P4D_GRAD_FP32 && l->grad_dtype != half[l->precision]) {
		p4d_fail(err, P4D_E_VALUE, "grad-dtype=%s cannot be combined with precision=%s",
			 p4d_request_value_text(r, P4D_GRAD_DTYPE, name, sizeof(name)),
			 p4d_request_value_text(r, P4D_PRECISION, precision, sizeof(precision)));
		return p4d_fix(err, "--p4d-grad-dtype=fp32");
	}
	if (!p4d_precise_optimizer(l) || p4d_framework_of(l->framework)->rounds_moments ||
	    (l->optimizer_sharding && l->precision != P4D_FP32))
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "optimizer-dtype and master-dtype below fp32 need optimizer-sharding=states and a 16-bit "
		 "precision");
	return p4d_fix(err, l->precision == P4D_FP32 ? "--p4d-optimizer-dtype=fp32 --p4d-master-dtype=fp32"
						     : "--p4d-optimizer-sharding=states");
}

static bool ep_works(const p4d_layout *l, uint64_t ep)
{
	/* with FSDP, ep divides the ranks that share one copy of the model */
	const bool shared = !l->shard_degree || l->shard_degree * l->tp % ep == 0;

	return shared && l->experts % ep == 0 && l->dp * l->cp * l->tp % (ep * l->etp) == 0;
}

static bool etp_works(const p4d_layout *l, uint64_t etp)
{
	return l->expert_ffn % etp == 0 && l->dp * l->cp * l->tp % etp == 0 && p4d_tp_is_linked(l, etp);
}

/* Options that have an effect only with experts. */
static const p4d_option of_experts[] = {P4D_EP,
					P4D_ETP,
					P4D_IMBALANCE,
					P4D_EXPERTS_PER_TOKEN,
					P4D_EXPERT_FFN,
					P4D_SHARED_FFN,
					P4D_DENSE_LAYERS,
					P4D_EXPERT_EVERY,
					P4D_SHARED_OVERLAP,
					P4D_EXPERT_OVERLAP,
					P4D_TOKEN_NODES,
					P4D_TOKEN_DISPATCHER,
					P4D_EXPERT_CAPACITY,
					P4D_PAD_EXPERTS};

bool p4d_layout_lacks(const p4d_request *r, p4d_option option)
{
	for (size_t i = 0; i < sizeof(of_experts) / sizeof(of_experts[0]); i++)
		if (of_experts[i] == option)
			return !p4d_is_set(r, P4D_EXPERTS);
	return false;
}

/* Refuses options of experts for a model without experts, where they have no effect. */
static int check_dense(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	if (r->value[P4D_RECOMPUTE] == P4D_RECOMPUTE_MOE) {
		p4d_fail(err, P4D_E_VALUE, "recompute=moe needs a model with experts");
		return p4d_fix(err, "--p4d-recompute=full");
	}
	if (l->mtp_layers)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"mtp-layers: p4d models multi-token prediction only for models with experts");
	for (size_t i = 0; i < sizeof(of_experts) / sizeof(of_experts[0]); i++) {
		const p4d_option option = of_experts[i];
		const char *name = p4d_request_option_info(option)->name;
		const bool spreads = option == P4D_EP || option == P4D_ETP;
		/* in a script, a program ignores these options for a dense model; but ep is an error, because
		 * there are no experts to distribute */
		const bool ignored = r->origin[option] == P4D_BY_SCRIPT && option != P4D_EP;
		if (!p4d_is_stated(r, option) || ignored || p4d_framework_states_nothing(r, option))
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s has no effect: the model has no experts", name);
		if (r->origin[option] == P4D_BY_SCRIPT)
			return -1; /* no option of p4d can repair the program's own argument */
		return spreads ? p4d_fix(err, "--p4d-%s=1", name) : p4d_fix(err, "leave out --p4d-%s", name);
	}
	return 0;
}

/* Refuses dispatchers and capacities that Megatron-LM lacks, and combinations that have no effect. */
static int check_dispatch(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const struct {
		bool wrong;
		const char *text, *fix;
	} checks[] = {
	    {p4d_is_set(r, P4D_PAD_EXPERTS) && r->value[P4D_PAD_EXPERTS] &&
		 !(l->megatron.expert_capacity > 0),
	     "pad-experts has no effect without expert-capacity", "--p4d-expert-capacity=1"},
	    {p4d_is_stated(r, P4D_IMBALANCE) && l->megatron.pads_experts && l->imbalance > 1,
	     "imbalance has no effect with pad-experts=on: all experts process the same number of tokens",
	     "leave out --p4d-imbalance"},
	    /* only if the user set ep, because ep may be 1 by p4d's choice */
	    {p4d_is_stated(r, P4D_IMBALANCE) && p4d_request_real(r, P4D_IMBALANCE) > 1 && l->ep == 1 &&
		 r->origin[P4D_EP] != P4D_BY_P4D,
	     "imbalance has no effect with ep=1: each rank has all experts, and its own tokens",
	     "leave out --p4d-imbalance"},
	    {l->megatron.pads_experts && l->megatron.dispatcher == P4D_DEEPEP,
	     "Megatron-LM does not pad experts with DeepEP", "--p4d-token-dispatcher=all-to-all"},
	    {l->megatron.shared_overlap && l->megatron.dispatcher != P4D_ALL_TO_ALL,
	     "shared-overlap=on needs token-dispatcher=all-to-all", "--p4d-token-dispatcher=all-to-all"},
	    {l->megatron.expert_overlap && l->ep * l->etp == 1,
	     "expert-overlap=on needs ep or etp above 1: otherwise GPUs exchange no tokens",
	     "--p4d-expert-overlap=off"},
	    {l->megatron.expert_overlap && l->recompute == P4D_RECOMPUTE_FULL,
	     "Megatron-LM does not support expert-overlap with recompute=full", "--p4d-expert-overlap=off"},
	    {l->megatron.expert_overlap && l->megatron.shared_overlap,
	     "Megatron-LM cannot combine expert-overlap and shared-overlap", "--p4d-shared-overlap=off"},
	    {l->megatron.expert_overlap && l->pp > 1 && l->vpp == 1,
	     "expert-overlap=on needs vpp above 1 in a pipeline", "--p4d-vpp=2"},
	    {l->megatron.token_nodes && l->megatron.dispatcher != P4D_DEEPEP,
	     "token-nodes needs token-dispatcher=deepep", "--p4d-token-dispatcher=deepep"},
	    {l->mtp_layers && l->recompute == P4D_RECOMPUTE_FULL && l->megatron.recompute_layers > 1,
	     "mtp-layers needs recompute-layers=1 in Megatron-LM", "--p4d-recompute-layers=1"},
	    {l->megatron.dispatcher == P4D_DEEPEP && l->ep * l->etp == 1, "DeepEP needs ep or etp above 1",
	     "--p4d-token-dispatcher=all-to-all"},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (!checks[i].wrong)
			continue;
		p4d_fail(err, P4D_E_VALUE, "%s", checks[i].text);
		return p4d_fix(err, "%s", checks[i].fix);
	}
	return 0;
}

/* Checks degrees of experts: ep of the dp*cp*tp ranks with the same layers share them; etp shards each. */
static int check_experts(const p4d_request *r, p4d_layout *l, p4d_error *err)
{
	const uint64_t ranks = l->dp * l->cp * l->tp;
	char list[160];

	if (!l->experts)
		return check_dense(r, l, err);
	if (l->experts_per_token > l->experts) {
		p4d_fail(err, P4D_E_VALUE, "experts-per-token=%" PRIu64 ": a layer has %" PRIu64 " experts",
			 l->experts_per_token, l->experts);
		return p4d_fix(err, "--p4d-experts-per-token=%" PRIu64, l->experts);
	}
	/* a script's value is no error, because programs use it only for models with shared experts */
	if (r->origin[P4D_SHARED_OVERLAP] == P4D_BY_USER && r->value[P4D_SHARED_OVERLAP] && !l->shared_ffn) {
		p4d_fail(err, P4D_E_VALUE, "shared-overlap has no effect: the model has no shared experts");
		return p4d_fix(err, "leave out --p4d-shared-overlap");
	}
	if (!etp_works(l, l->etp)) {
		const uint64_t nearest =
		    p4d_layout__list(l, etp_works, l->expert_ffn, l->link_domain, l->etp, list, sizeof(list));
		p4d_fail(err, P4D_E_EXPERTS,
			 "etp=%" PRIu64 " must divide each of these: the %" PRIu64
			 " columns of an expert, dp*cp*tp = %" PRIu64 " and the %" PRIu64
			 " GPUs of a node; etp can be %s",
			 l->etp, l->expert_ffn, ranks, l->gpus_per_node, list);
		return p4d_fix(err, "--p4d-etp=%" PRIu64, nearest);
	}
	if (!ep_works(l, l->ep)) {
		const uint64_t nearest =
		    p4d_layout__list(l, ep_works, l->experts, l->experts, l->ep, list, sizeof(list));
		p4d_fail(err, P4D_E_EXPERTS,
			 "ep=%" PRIu64 " must divide the %" PRIu64 " experts, and ep*etp = %" PRIu64
			 "*%" PRIu64 " must divide dp*cp*tp = %" PRIu64 "*%" PRIu64 "*%" PRIu64
			 "; ep can be %s",
			 l->ep, l->experts, l->ep, l->etp, l->dp, l->cp, l->tp, list);
		return p4d_fix(err, "--p4d-ep=%" PRIu64, nearest);
	}
	l->expert_dp = ranks / (l->ep * l->etp);
	return check_dispatch(r, l, err);
}

/* Checks tp-comm-overlap: Megatron-LM's userbuffers split a matmul along the sequence. */
static int check_overlap(const p4d_layout *l, p4d_error *err)
{
	if (!l->tp_comm_overlap || l->sequence_parallel)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "tp-comm-overlap=on needs sequence-parallel=on");
	return p4d_fix(err, "--p4d-sequence-parallel=on");
}

static int check_framework(const p4d_layout *l, p4d_error *err)
{
	const p4d_framework *f = p4d_framework_of(l->framework);

	return f->check_layout ? f->check_layout(l, err) : 0;
}

int p4d_layout__check(const p4d_request *request, p4d_layout *l, p4d_error *err)
{
	return p4d_layout__check_grid(request, l, err) < 0 || check_tensor(request, l, err) < 0 ||
		       p4d_layout__split(request, l, err) < 0 || check_world(l, err) < 0 ||
		       check_shards(l, err) < 0 || p4d_layout__check_domains(l, err) < 0 ||
		       p4d_layers_check_memory(request, l, err) < 0 || check_experts(request, l, err) < 0 ||
		       check_sequence(l, err) < 0 || check_batch(l, err) < 0 || check_schedule(l, err) < 0 ||
		       p4d_layout__slices(request, l, err) < 0 || check_local_loss(request, l, err) < 0 ||
		       check_types(request, l, err) < 0 || check_overlap(l, err) < 0 ||
		       check_heads(l, err) < 0 || check_hierarchy(request, l, err) < 0 ||
		       check_recompute(l, err) < 0 || p4d_layout__check_modules(request, l, err) < 0 ||
		       check_framework(l, err) < 0 || p4d_heeds__check(request, err) < 0
		   ? -1
		   : 0;
}
