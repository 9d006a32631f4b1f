/* bandwidth.c - how fast copies are, as text and as JSON. */
#include <string.h>

#include "cmd/probe/print.h"
#include "cmd/table_out.h"

enum { CELL = 32 };

/* Four digits, so that a line of a matrix is short. */
static void put_rate(char cell[CELL], double bytes_per_s)
{
	double rate = bytes_per_s / 1e9;

	snprintf(cell, CELL, "%.*f", rate < 99.995 ? 2 : rate < 999.95 ? 1 : 0, rate);
}

/* ---- text ---- */

static void print_devices(FILE *out, const struct gt_bandwidth *b)
{
	static const char *const titles[] = { "device", "pinned in", "pageable in", "pinned out",
		"pageable out", "within" };
	struct gt_table table = { .out = out, .right = { false, true, true, true, true, true } };
	char cells[GT_COPY_WITHIN + 2][CELL];
	const char *texts[GT_COPY_WITHIN + 2];

	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		gt_table_row(&table, titles, GT_COPY_WITHIN + 2);
		for (size_t i = 0; i < b->count; i++) {
			snprintf(cells[0], CELL, "cuda:%zu", i);
			for (int kind = 0; kind <= GT_COPY_WITHIN; kind++)
				put_rate(cells[kind + 1], b->rate[i][kind]);
			for (int k = 0; k < GT_COPY_WITHIN + 2; k++)
				texts[k] = cells[k];
			gt_table_row(&table, texts, GT_COPY_WITHIN + 2);
		}
	}
}

/* A pair's cell: '*' where copies go through the host, '!' where data arrive wrong. */
static void put_pair(char cell[CELL], const struct gt_peer_report *p, bool both)
{
	put_rate(cell, both ? p->both_bytes_per_s : p->bytes_per_s);
	strcat(cell, p->wrong ? "!" : p->direct ? " " : "*");
}

/* The columns of `count` GPUs from `first` on. */
static void print_columns(
    FILE *out, const struct gt_bandwidth *b, bool both, size_t first, size_t count)
{
	struct gt_table table = { .out = out };
	char cells[GT_TABLE_COLUMNS][CELL];
	const char *texts[GT_TABLE_COLUMNS];

	for (size_t i = 0; i <= count; i++) {
		table.right[i] = i > 0;
		texts[i] = cells[i];
	}
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		snprintf(cells[0], CELL, "%s", both ? "both ways" : "from / to");
		for (size_t i = 0; i < count; i++)
			snprintf(cells[i + 1], CELL, "cuda:%zu", first + i);
		gt_table_row(&table, texts, count + 1);
		for (size_t a = 0; a < b->count; a++) {
			snprintf(cells[0], CELL, "cuda:%zu", a);
			for (size_t k = 0; k < count; k++)
				if (a == first + k)
					snprintf(cells[k + 1], CELL, "- ");
				else
					put_pair(
					    cells[k + 1], &b->peer[a * b->count + first + k], both);
			gt_table_row(&table, texts, count + 1);
		}
	}
}

/* Print the matrix as several tables, if lines would exceed 80 columns: eight GPUs fit side by
 * side, seven if their numbers have two digits. */
static void print_matrix(FILE *out, const struct gt_bandwidth *b, bool both)
{
	size_t max = b->count > 10 ? 7 : 8, tables = (b->count + max - 1) / max;

	for (size_t i = 0; i < tables; i++) {
		size_t first = b->count * i / tables, end = b->count * (i + 1) / tables;

		fputc('\n', out);
		print_columns(out, b, both, first, end - first);
	}
}

/* Explain the signs that occur in the tables. */
static void print_signs(FILE *out, const struct gt_bandwidth *b)
{
	bool staged = false, wrong = false;

	for (size_t a = 0; a < b->count; a++)
		for (size_t k = 0; k < b->count; k++) {
			const struct gt_peer_report *p = &b->peer[a * b->count + k];

			staged |= a != k && !p->direct && !p->wrong;
			wrong |= p->wrong != 0;
		}
	if (staged)
		fputs("* through the host: the driver does not allow direct copies\n", out);
	if (wrong)
		fputs("! data arrive wrong\n", out);
	else
		fputs("data of all pairs were compared, and arrive as they were\n", out);
}

void gt_probe_print_bandwidth(FILE *out, bool color, const struct gt_bandwidth *b, int width)
{
	fprintf(out, "\n%scopies%s    GB/s\n", color ? "\033[1m" : "", color ? "\033[0m" : "");
	fprintf(out, "CPU       %.2f in its memory\n", b->cpu / 1e9);
	if (b->problem[0]) {
		fputs("GPUs      not measured: ", out);
		gt_probe_put_text(out, b->problem, 24, 10, width);
		fputc('\n', out);
		return;
	}
	if (b->count) {
		fputc('\n', out);
		print_devices(out, b);
	}
	if (b->count < 2)
		return;
	print_matrix(out, b, false);
	print_matrix(out, b, true);
	print_signs(out, b);
}

/* ---- JSON ---- */

static json_t *rate_json(double bytes_per_s)
{
	return bytes_per_s > 0 ? json_real(bytes_per_s) : json_null();
}

static json_t *device_json(const struct gt_bandwidth *b, size_t i)
{
	const double *r = b->rate[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "device", json_sprintf("cuda:%zu", i),
	    "pinned_in_bytes_per_s", rate_json(r[GT_COPY_PINNED_IN]), "pageable_in_bytes_per_s",
	    rate_json(r[GT_COPY_PAGEABLE_IN]), "pinned_out_bytes_per_s",
	    rate_json(r[GT_COPY_PINNED_OUT]), "pageable_out_bytes_per_s",
	    rate_json(r[GT_COPY_PAGEABLE_OUT]), "within_bytes_per_s", rate_json(r[GT_COPY_WITHIN]));
}

static json_t *peer_json(const struct gt_bandwidth *b, size_t from, size_t to)
{
	const struct gt_peer_report *p = &b->peer[from * b->count + to];

	return json_pack("{s:o, s:o, s:b, s:o, s:o, s:I, s:I}", "from",
	    json_sprintf("cuda:%zu", from), "to", json_sprintf("cuda:%zu", to), "direct",
	    (int)p->direct, "bytes_per_s", rate_json(p->bytes_per_s), "both_ways_bytes_per_s",
	    rate_json(p->both_bytes_per_s), "words_checked", (json_int_t)p->words, "words_wrong",
	    (json_int_t)p->wrong);
}

json_t *gt_probe_bandwidth_json(const struct gt_bandwidth *b)
{
	json_t *devices = json_array(), *peers = json_array();
	bool failed = false;

	for (size_t i = 0; !b->problem[0] && i < b->count; i++) {
		failed |= json_array_append_new(devices, device_json(b, i)) != 0;
		for (size_t k = 0; k < b->count; k++)
			if (i != k)
				failed |= json_array_append_new(peers, peer_json(b, i, k)) != 0;
	}
	if (failed) {
		json_decref(devices);
		json_decref(peers);
		return NULL;
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "cpu_bytes_per_s", rate_json(b->cpu), "devices",
	    devices, "peers", peers, "problem",
	    b->problem[0] ? gt_probe_text_json(b->problem) : json_null());
}
