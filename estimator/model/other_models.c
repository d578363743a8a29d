/* SPDX-License-Identifier: Apache-2.0 */
/* Models that people train with the programs for language models, but that are no language models: p4d
 * reports nothing about them. */
#include <string.h>
#include <strings.h>

#include "model/model.h"

/* How the last part of such a model's name on the hub starts. A text after "*" may occur anywhere in it. */
static const char *const names[] = {
    /* images */
    "vit-",
    "vit_",
    "deit-",
    "beit-",
    "swin-",
    "swinv2-",
    "dinov2",
    "dinov3",
    "resnet",
    "convnext",
    "efficientnet",
    "mobilenet",
    "mobilevit",
    "levit-",
    "regnet-",
    "poolformer",
    "pvt_",
    "segformer",
    "mit-b",
    "sam-vit",
    "sam2",
    "mask2former",
    "maskformer",
    "oneformer",
    "detr-",
    "yolos-",
    "dpt-",
    "upernet-",
    "glpn-",
    "clip-vit",
    "siglip",
    "stable-diffusion",
    "sdxl",
    "*-diffusion-",
    "videomae-",
    "timesformer-",
    "vivit-",
    "trocr-",
    "donut-",
    /* sound */
    "whisper",
    "distil-whisper",
    "*wav2vec2",
    "hubert-",
    "wavlm-",
    "unispeech",
    "mms-",
    "data2vec-",
    "ast-finetuned",
    "speecht5",
    "s2t-",
    "*-whisper-",
    /* text encoders, and sentence embeddings */
    "*bert",
    "electra-",
    "*electra-base",
    "*electra-small",
    "*electra-large",
    "all-mpnet-",
    "mpnet-",
    "*minilm",
    "xlnet-",
    "longformer-",
    "funnel-",
    "fnet-",
    "canine-",
    "squeezebert",
    "bge-",
    "e5-",
    "multilingual-e5-",
    "gte-",
    "nomic-embed",
    "layoutlm",
    "sentence-t5",
    "specter",
    /* text-to-text models */
    "*bart-",
    "*pegasus",
    "opus-mt",
    "marian",
    "m2m100",
    "nllb-",
    "t5-",
    "flan-t5",
    "flan-ul2",
    "codet5",
    "t0_",
    "mt0-",
    "*mt5-",
    "byt5-",
    "madlad400",
    "led-",
    "long-t5",
    "longt5",
    "blenderbot",
    "prophetnet",
    "switch-base",
    "switch-large",
    /* proteins and molecules */
    "esm2_",
    "esm1",
    "esm-",
    "esmfold",
    "*prot_t5",
    "*ankh-",
    "nucleotide-transformer",
    "dnabert",
    "molformer",
};

static bool contains(const char *text, const char *part)
{
	const size_t length = strlen(part);

	for (; *text; text++)
		if (!strncasecmp(text, part, length))
			return true;
	return false;
}

bool p4d_model_is_other(const char *name)
{
	char last[128];
	size_t length = strlen(name);

	while (length && name[length - 1] == '/')
		length--;
	size_t from = length;
	while (from && name[from - 1] != '/')
		from--;
	length -= from;
	if (length >= sizeof(last))
		return false;
	memcpy(last, name + from, length);
	last[length] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*names[i] == '*' ? contains(last, names[i] + 1)
				     : !strncasecmp(last, names[i], strlen(names[i])))
			return true;
	return !strncasecmp(name, "sentence-transformers/", strlen("sentence-transformers/"));
}
