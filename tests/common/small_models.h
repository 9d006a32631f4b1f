/* small_models.h - a small model of each kind of network, from the table of models. */
#ifndef GT_TESTS_COMMON_SMALL_MODELS_H
#define GT_TESTS_COMMON_SMALL_MODELS_H

#include <stdbool.h>

struct small_model {
	char spec[128]; /* "gpt:layers=2,heads=4,width=32,block=8,vocab=51" */
	bool text;      /* it writes texts */
	bool convolves; /* several convolutions, which take long on a simulated GPU */
	bool norms;     /* it has running statistics of batches, which ranks do not share */
};

/* The first model of each kind in gt_archs[]: a new kind of network is in all tests that take
 * these. The last row has an empty spec. */
const struct small_model *small_models(void);

#endif
