/* json_out.c - numbers written as JSON. */
#include "cmd/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"

void gt_json_real(FILE *out, double value)
{
	char text[GT_TEXT_SIZE];

	if (!isfinite(value)) {
		fputs("null", out);
		return;
	}
	fputs(gt_text_number(text, value), out);
	/* Readers that tell the types apart take 1 for an integer. */
	if (!strpbrk(text, ".e"))
		fputs(".0", out);
}

json_t *gt_json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}
