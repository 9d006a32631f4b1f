/* details.c - the model and the predictions of a run, from its details.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report/report.h"
#include "lib/base/opt_json.h"
#include "lib/train/report/details.h"
#include "lib/train/run/run_dir.h"

/* The file may hold anything. More are left out: images, their bytes as base64, blocks of the
 * model, and classes. */
enum { MOST_IMAGES = 64, IMAGE_BYTES = 4 << 20, MOST_BLOCKS = 200, MOST_CLASSES = 1 << 24 };

/* Return an integer member from 0 to `most`, or -1. */
static int64_t find_integer(const json_t *object, const char *key, int64_t most)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number = json_integer_value(value);

	return json_is_integer(value) && number >= 0 && number <= most ? (int64_t)number : -1;
}

/* ---- the model ---- */

/* Parameters of a part of the model. */
struct block {
	const char *name; /* the name of its first parameter */
	size_t length;    /* bytes of the part's name at its start */
	int64_t tensors;
	double elements; /* a product of hostile numbers may be too large for an integer */
};

struct model {
	struct block blocks[MOST_BLOCKS];
	size_t count, left_out;
	int64_t tensors;
	double elements, trained;
};

/* The name of a block ends behind the first number in it, or else before the last dot. */
static size_t block_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (const char *p = name; *p;) {
		size_t length = strcspn(p, "."), digits = strspn(p, "0123456789");

		if (digits && digits == length && p[length])
			return (size_t)(p - name) + length;
		p += length + (p[length] == '.');
	}
	return dot && dot > name ? (size_t)(dot - name) : strlen(name);
}

static struct block *find_block(struct model *m, const char *name)
{
	size_t length = block_length(name);

	for (size_t i = 0; i < m->count; i++)
		if (m->blocks[i].length == length && !memcmp(m->blocks[i].name, name, length))
			return &m->blocks[i];
	if (m->count == MOST_BLOCKS)
		return NULL;
	m->blocks[m->count] = (struct block){ .name = name, .length = length };
	return &m->blocks[m->count++];
}

static void add_parameter(struct model *m, const json_t *parameter)
{
	const char *name = json_string_value(json_object_get(parameter, "name"));
	const json_t *shape = json_object_get(parameter, "shape"), *size;
	struct block *block;
	double elements = 1;
	size_t i;

	if (!name)
		return;
	json_array_foreach(shape, i, size) elements *= fmax(0, json_number_value(size));
	block = find_block(m, name);
	m->left_out += !block;
	m->tensors++;
	m->elements += elements;
	if (json_is_true(json_object_get(parameter, "trained")))
		m->trained += elements;
	if (!block)
		return;
	block->tensors++;
	block->elements += elements;
}

static void put_block(FILE *out, const struct block *b, double all)
{
	char name[256];

	snprintf(name, sizeof(name), "%.*s", (int)(b->length < 255 ? b->length : 255), b->name);
	fputs("<tr><th scope=\"row\">", out);
	gt_report_put_text(out, name);
	fprintf(out,
	    "</th><td class=\"number\">%lld</td><td class=\"number\">%.0f</td>"
	    "<td class=\"number\">%.1f %%</td></tr>\n",
	    (long long)b->tensors, b->elements, all > 0 ? 100 * b->elements / all : 0);
}

static void put_model(FILE *out, const json_t *parameters)
{
	struct model m = { .count = 0 };
	const json_t *parameter;
	size_t i;

	json_array_foreach(parameters, i, parameter) add_parameter(&m, parameter);
	if (!m.count || !isfinite(m.elements))
		return;
	fprintf(out, "<h3>Model</h3>\n<p>%.0f parameters in %lld tensors", m.elements,
	    (long long)m.tensors);
	if (m.trained < m.elements)
		fprintf(out, ", of which %.0f are trained", m.trained);
	fputs(
	    ".</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Part</th><th "
	    "scope=\"col\" class=\"number\">Tensors</th><th scope=\"col\" class=\"number\">"
	    "Parameters</th><th scope=\"col\" class=\"number\">Share</th></tr></thead>\n<tbody>\n",
	    out);
	for (i = 0; i < m.count; i++)
		put_block(out, &m.blocks[i], m.elements);
	fputs("</tbody>\n</table></div>\n", out);
	if (m.left_out)
		fprintf(out, "<p>%zu more tensors are left out.</p>\n", m.left_out);
}

/* ---- predictions ---- */

/* The predictions of a run, and the names of its classes. */
struct predictions {
	const json_t *names; /* or NULL */
	const json_t *pairs, *misses;
	int classes;
};

static void put_class(FILE *out, const struct predictions *p, int64_t class)
{
	const char *name = json_string_value(json_array_get(p->names, (size_t) class));

	if (name)
		gt_report_put_text(out, name);
	else
		fprintf(out, "%lld", (long long)class);
}

/* Read [CLASS, PREDICTED, COUNT]. Returns false if the pair is no such one. */
static bool read_pair(int64_t out[3], const struct predictions *p, const json_t *pair)
{
	for (size_t i = 0; i < 3; i++) {
		const json_t *value = json_array_get(pair, i);

		out[i] = json_integer_value(value);
		if (!json_is_integer(value) || out[i] < 0 || (i < 2 && out[i] >= p->classes))
			return false;
	}
	return true;
}

/* The matrix of a few classes. The shade of a cell is its share of the row, in tenths. */
static void put_matrix(FILE *out, const struct predictions *p)
{
	double counts[GT_DETAILS_MATRIX][GT_DETAILS_MATRIX] = { { 0 } };
	const json_t *item;
	size_t i;

	json_array_foreach(p->pairs, i, item)
	{
		int64_t pair[3];

		if (read_pair(pair, p, item))
			counts[pair[0]][pair[1]] += (double)pair[2];
	}
	fputs("<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><th scope=\"col\">is \\ "
	      "predicted</th>",
	    out);
	for (int k = 0; k < p->classes; k++) {
		fputs("<th scope=\"col\" class=\"number\">", out);
		put_class(out, p, k);
		fputs("</th>", out);
	}
	fputs("</tr></thead>\n<tbody>\n", out);
	for (int r = 0; r < p->classes; r++) {
		double sum = 0;

		fputs("<tr><th scope=\"row\">", out);
		put_class(out, p, r);
		fputs("</th>", out);
		for (int k = 0; k < p->classes; k++)
			sum += counts[r][k];
		for (int k = 0; k < p->classes; k++)
			fprintf(out, "<td class=\"number %s s%d\">%.0f</td>",
			    r == k ? "right" : "wrong",
			    sum > 0 ? (int)ceil(10 * counts[r][k] / sum) : 0, counts[r][k]);
		fputs("</tr>\n", out);
	}
	fputs("</tbody>\n</table></div>\n", out);
}

/* The most frequent confusions of many classes. */
static void put_confusions(FILE *out, const struct predictions *p)
{
	enum { MOST = 20 };
	const json_t *item;
	size_t i;

	fputs("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Class</th><th "
	      "scope=\"col\">Predicted as</th><th scope=\"col\" class=\"number\">Samples</th></tr>"
	      "</thead>\n<tbody>\n",
	    out);
	json_array_foreach(p->pairs, i, item)
	{
		int64_t pair[3];

		if (i >= MOST || !read_pair(pair, p, item))
			continue;
		fputs("<tr><th scope=\"row\">", out);
		put_class(out, p, pair[0]);
		fputs("</th><td>", out);
		put_class(out, p, pair[1]);
		fprintf(out, "</td><td class=\"number\">%lld</td></tr>\n", (long long)pair[2]);
	}
	fputs("</tbody>\n</table></div>\n", out);
}

/* Return the image of a miss as base64, or NULL: other characters could end the attribute. */
static const char *find_image(const json_t *miss)
{
	static const char characters[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
	const json_t *png = json_object_get(miss, "png");
	const char *text = json_string_value(png);
	size_t length = json_string_length(png);

	return text && length && length <= IMAGE_BYTES && strspn(text, characters) == length ? text
	                                                                                     : NULL;
}

static void put_miss(FILE *out, const struct predictions *p, const json_t *miss)
{
	const char *png = find_image(miss);
	const json_t *sample = json_object_get(miss, "sample"),
	             *probability = json_object_get(miss, "probability");
	double share = json_number_value(probability);
	int64_t class = find_integer(miss, "class", p->classes - 1),
	        predicted = find_integer(miss, "predicted", p->classes - 1);

	if (class < 0 || predicted < 0)
		return;
	fputs("<figure class=\"miss\">", out);
	if (png)
		fprintf(out, "<img alt=\"\" src=\"data:image/png;base64,%s\">", png);
	fputs("<figcaption><span>", out);
	put_class(out, p, predicted);
	if (json_is_number(probability) && share >= 0 && share <= 1)
		fprintf(out, " %.1f %%", 100 * share);
	fputs("<br>is ", out);
	put_class(out, p, class);
	fputs("<br><small>", out);
	if (json_is_string(sample))
		gt_report_put_text(out, json_string_value(sample));
	else
		fprintf(out, "sample %lld", (long long)json_integer_value(sample));
	fputs("</small></span></figcaption></figure>\n", out);
}

static void put_predictions(FILE *out, const struct predictions *p)
{
	const json_t *miss;
	size_t i;

	fputs("<h3>Confusion matrix</h3>\n", out);
	if (p->classes <= GT_DETAILS_MATRIX)
		put_matrix(out, p);
	else
		put_confusions(out, p);
	if (!json_array_size(p->misses))
		return;
	fputs("<h3>Wrong predictions with the highest probability</h3>\n<div class=\"misses\">\n",
	    out);
	json_array_foreach(p->misses, i, miss) if (i < MOST_IMAGES) put_miss(out, p, miss);
	fputs("</div>\n", out);
}

static void put_text(FILE *out, const json_t *evaluation)
{
	const char *prompt = json_string_value(json_object_get(evaluation, "prompt")),
	           *text = json_string_value(json_object_get(evaluation, "text"));

	if (!text)
		return;
	fputs("<h3>Text</h3>\n<p class=\"sample\"><i>", out);
	gt_report_put_lines(out, prompt ? prompt : "");
	fputs("</i>", out);
	gt_report_put_lines(out, text);
	fputs("</p>\n", out);
}

static void put_evaluation(FILE *out, const struct gt_run *run, const json_t *evaluation)
{
	const json_t *about = json_object_get(run->config, GT_OPT_ABOUT);
	const struct predictions p = {
		.names = json_object_get(json_object_get(about, "data"), "class-names"),
		.pairs = json_object_get(evaluation, "pairs"),
		.misses = json_object_get(evaluation, "misses"),
		.classes = (int)find_integer(evaluation, "classes", MOST_CLASSES),
	};
	int64_t step = find_integer(evaluation, "step", INT64_MAX);

	if (step < 0)
		return;
	fprintf(out, "<p>The best evaluation, at step %lld:</p>\n", (long long)step);
	if (p.classes > 0 && json_is_array(p.pairs))
		put_predictions(out, &p);
	put_text(out, evaluation);
}

void gt_report_put_answers(FILE *out, const struct gt_run *run)
{
	struct gt_folder folder = { 0 };
	json_t *details = NULL;

	if (gt_folder_open(&folder, run->path, GT_ERR_IGNORED))
		return;
	gt_run_dir_read_json(&details, &folder, GT_RUN_DETAILS, GT_ERR_IGNORED);
	gt_folder_close(&folder);
	put_evaluation(out, run, json_object_get(details, "evaluation"));
	put_model(out, json_object_get(details, "parameters"));
	json_decref(details);
}
