/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "guard/guard.h"
#include "job/job.h"
#include "reader/reader.h"
#include "request/request.h"

/* Functions of the guard that use what the reader found in a job's script. */

/* True if the script certainly runs exactly one training, so that p4d can use the reading. */
bool p4d_guard__script_runs(const p4d_reading *reading);

/* False if the script names no model, or one that is no language model: p4d prints nothing about such a
 * script. files: the function may read the user's model files. */
bool p4d_guard__script_concerns(const p4d_site *site, const p4d_reading *reading, bool files);

/* Place of the program in the script: "train.sh:90 (pretrain_gpt.py)". */
const char *p4d_guard__script_place(const p4d_reading *reading, char *buf, size_t size);

/*
 * True if a reading (with a reader) is not enough for a verdict. *why then is OK if nobody expects a verdict,
 * UNMODELLED, or NOT_READ with the missing values and the options that would give them. typed: options that
 * the user typed, which are therefore not missing.
 */
bool p4d_guard__script_unread(const p4d_reading *reading, const p4d_request *typed, p4d_error *why);

/* True if only the vocabulary size is missing, which is in the tokenizer's files. */
bool p4d_guard__script_lacks_vocabulary(const p4d_reading *reading);

/*
 * script_typed.c: name of the framework that the script starts ("ddp"); NULL: p4d does not know the program
 * or does not model it.
 */
const char *p4d_guard__script_framework(const p4d_reading *reading);

/* True if the script passes a model to its program. If not, the program may get the model and all other
 * values from elsewhere. */
bool p4d_guard__gives_arguments(const p4d_reading *reading);

/* True if the program runs with the script's values alone, because the script uses no plan. */
bool p4d_guard__script_binds(const p4d_reading *reading, const p4d_job *job);

/*
 * For a job that has options, and a script whose values its program uses. Unsets options that repeat the
 * script's values. Returns true if other options contradict a value of the script or a default of its
 * program. *err is then CONTRADICTION, with the right options as the fix, and *without is the request without
 * the contradicting options.
 */
bool p4d_guard__settle_typed(const p4d_reading *reading, const char *datadir, p4d_request *request,
			     p4d_request *without, p4d_error *err);

/* Fills options that the user did not type, with origin P4D_BY_SCRIPT. Errors: VALUE for a bad value in
 * the script. */
int p4d_guard__take_script(const p4d_reading *reading, p4d_request *request, p4d_error *err);

/* True if the option's value is the one in this text. */
bool p4d_guard__agrees(const p4d_request *request, p4d_option option, const char *text);

/* Compares a complete request with the script. Errors: CONTRADICTION, with both places. */
int p4d_guard__compare_script(const p4d_reading *reading, const p4d_request *request, p4d_error *err);

/* True if the script takes a part of its layout from variables that Slurm sets from the job's size. */
bool p4d_guard__script_follows(const p4d_reading *reading);

/*
 * True if the script sets the candidate's values itself, or would still have them on the nodes and GPUs that
 * `then` has. The number of processes is left to p4d_guard__script_starts.
 */
bool p4d_guard__script_stays(const p4d_reading *reading, const p4d_request *candidate,
			     const p4d_geometry *now, const p4d_geometry *then);

/* Whether the batch of the script's program grows with the GPUs, because the script gives only a GPU's share.
 */
bool p4d_guard__batch_follows(const p4d_reading *reading);

/* Adds the number of processes that the script starts for other GPUs: "train.sh:4: --nproc_per_node 4".
 * False: the script has a number, and p4d knows no word for another one. */
bool p4d_guard__script_starts(const p4d_reading *reading, const p4d_geometry *now, const p4d_geometry *then,
			      p4d_text *fix);

/*
 * Adds the changes of the script for another layout, in the words of its program: "train.sh:95:
 * --tensor-model-parallel-size 8; train.sh:90: add --sequence-parallel". asked, candidate: complete requests,
 * for the present GPUs and for the new ones. way: its options are left to p4d_guard__script_way; may be NULL.
 * add: also list values that the script does not set. pasted: gets the values of the changed script. False:
 * the changed script would train with another global batch, or p4d could not read it.
 */
bool p4d_guard__script_fix(const p4d_reading *reading, const p4d_request *asked, const p4d_request *candidate,
			   const p4d_geometry *now, const p4d_geometry *then, const p4d_way *way, bool add,
			   p4d_request *pasted, p4d_text *fix);

/* The bits of p4d_layout_options for which the program has no argument, in the form of
 * p4d_search_space.kept. asked: a complete request for the present GPUs. */
uint32_t p4d_guard__script_untold(const p4d_reading *reading, const p4d_request *asked,
				  const p4d_geometry *now);
/* The bits of values of recompute for which the program has no word, in the form of
 * p4d_search_space.unsaid_recompute. asked: as above. */
uint32_t p4d_guard__script_unsaid(const p4d_reading *reading, const p4d_request *asked,
				  const p4d_geometry *now);

/* Adds the change of the script for a way: "in ds_z3.json: \"stage\": 3". False: p4d knows no argument of
 * the program for this way. */
bool p4d_guard__script_way(const p4d_reading *reading, const p4d_way *way, p4d_text *fix);

/* Translates a fix of one flag, "--p4d-seq-len=8192", into the program's argument: "serve.sh:4:
 * --max-model-len 8192". If the program has no such argument, the flag stays as it is. */
void p4d_guard__script_flag(const p4d_reading *reading, char *flag, size_t size);
