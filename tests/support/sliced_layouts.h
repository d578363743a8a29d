/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of ranks and their layouts, with token slices of sequences of 16 tokens. Part of a table in
 * test_trainer_layouts.c. */
{1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 token-slices=2"},
    {1,
     "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 token-slices=4 slice-lengths=7,4,3,2 schedule=gpipe recompute=full"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=4 token-slices=16 recompute=keep"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=8 token-slices=3 slice-lengths=1,14,1 recompute=mlp"},
    /* data and tensor parallel */
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 token-slices=2"},
    {4, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 token-slices=5 optimizer-sharding=off schedule=gpipe"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=2 token-slices=3 slice-lengths=8,6,2"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 token-slices=4 slice-lengths=5,5,3,3 sequence-parallel=off "
	"recompute=mlp"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 token-slices=2 slice-lengths=12,4 tp-comm-overlap=on"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=2 token-slices=4 recompute=full"},
    /* pipelines */
    {2, "tp=1 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=4 schedule=1f1b"},
    {2, "tp=1 cp=1 pp=2 vpp=1 micro-batch=2 token-slices=2 schedule=gpipe"},
    {4, "tp=1 cp=1 pp=4 vpp=1 micro-batch=1 token-slices=3 slice-lengths=9,4,3 schedule=1f1b"},
    {4, "tp=1 cp=1 pp=4 vpp=1 micro-batch=1 token-slices=5 slice-lengths=5,4,3,2,2 schedule=gpipe "
	"recompute=full"},
    {4, "tp=1 cp=1 pp=4 vpp=1 micro-batch=8 token-slices=8 schedule=1f1b pipeline-split=1,2,3,2"},
    {3, "tp=1 cp=1 pp=3 vpp=1 micro-batch=2 token-slices=2 slice-lengths=11,5 schedule=1f1b "
	"pipeline-split=3,3,2 "
	"recompute=selective"},
    {8, "tp=1 cp=1 pp=8 vpp=1 micro-batch=1 token-slices=4 schedule=1f1b recompute=mlp"},
    /* several at once */
    {4, "tp=1 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=4 schedule=1f1b optimizer-sharding=off"},
    {4, "tp=2 cp=1 pp=2 vpp=1 micro-batch=2 token-slices=2 slice-lengths=10,6 schedule=1f1b recompute=keep"},
    {4, "tp=2 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=4 schedule=gpipe tp-comm-overlap=on recompute=full"},
    {8,
     "tp=2 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=4 slice-lengths=6,4,4,2 schedule=1f1b recompute=full"},
    {8, "tp=2 cp=1 pp=4 vpp=1 micro-batch=2 token-slices=8 schedule=1f1b"},
    {8, "tp=4 cp=1 pp=2 vpp=1 micro-batch=1 token-slices=2 schedule=1f1b sequence-parallel=off"},
    {6,
     "tp=2 cp=1 pp=3 vpp=1 micro-batch=1 token-slices=4 schedule=gpipe pipeline-split=2,4,2 recompute=mlp"},
