/* kernels.c - rates of products, convolutions, attention and rows beside sgemm and copy. */
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/*
 * bench_kernels [SECONDS [attention|conv|matmul|batched|rows]]: time given to each row, of which
 * the best run counts; default 0.2. With 0 each row runs once, and large rows are left out: that
 * tells whether the kernels work, not how fast they are. Threads are OpenMP's (OMP_NUM_THREADS).
 * The last column of products is the share of dnnl_sgemm's best rate on cubes of 512 to 2048; of
 * softmax and norms, GB/s count each input and output once.
 */

#define TABLES(name, isa)                                                                          \
	extern const struct gt_kernel gt_cpu_attention_kernels_##isa[],                            \
	    gt_cpu_norm_kernels_##isa[], gt_cpu_softmax_kernels_##isa[];                           \
	static const struct tables name = { gt_cpu_attention_kernels_##isa,                        \
		gt_cpu_norm_kernels_##isa, gt_cpu_softmax_kernels_##isa }

/* The tables of an instruction set. */
struct tables {
	const struct gt_kernel *attention, *norm, *softmax;
};

TABLES(base_tables, base);
#if defined(__x86_64__)
TABLES(avx2_tables, avx2);
TABLES(avx512_tables, avx512);
#endif

static const struct tables *best_tables(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw"))
		return &avx512_tables;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &avx2_tables;
#endif
	return &base_tables;
}

static double seconds_per_row = 0.2, sgemm_gflops;

static bool is_left_out(double flops)
{
	return seconds_per_row <= 0 && flops > 1e9;
}

/* Whether a row of which `runs` began at `began` runs again. */
static bool runs_again(int runs, double began)
{
	if (seconds_per_row <= 0)
		return runs < 1;
	return runs < 3 || omp_get_wtime() - began < seconds_per_row;
}

/* 64-byte aligned memory, touched. */
static void *memory(size_t bytes)
{
	float *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		exit(1);
	}
	memset(p, 0, bytes);
	return p;
}

static struct gt_tensor tensor(int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
	struct gt_tensor t = { .present = true, .ndim = ndim, .shape = { a, b, c, d } };
	float *x;

	t.layout = ndim == 4 ? GT_CHANNELS_LAST : GT_PLAIN;
	t.data = x = memory((size_t)gt_tensor_elements(&t) * sizeof(float));
	for (int64_t i = 0; i < gt_tensor_elements(&t); i++)
		x[i] = (float)(i * 7 % 13 - 6) / 8;
	return t;
}

static void check(int rc, const struct gt_err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s\n", err->text);
	exit(1);
}

static const struct gt_kernel *find(
    const struct gt_kernel *table, const char *op, const struct gt_call *call)
{
	while (strcmp(table->op, op) != 0 || (table->accepts && !table->accepts(call)))
		table++;
	return table;
}

/* Best seconds of a run. */
static double best_run(const struct gt_kernel *table, const char *op, struct gt_call *call)
{
	const struct gt_kernel *k = find(table, op, call);
	struct gt_err err = GT_ERR_INIT;
	double best = 1e9, begin;

	call->kernel = k;
	call->workspace_bytes = 0;
	call->state = NULL;
	if (k->prepare)
		check(k->prepare(call, &err), &err);
	call->workspace = memory(call->workspace_bytes);
	if (k->bind)
		check(k->bind(call, &err), &err);
	begin = omp_get_wtime();
	for (int n = 0; runs_again(n, begin); n++) {
		double t = omp_get_wtime();

		check(k->run(call, &err), &err);
		t = omp_get_wtime() - t;
		best = t < best ? t : best;
	}
	if (k->release)
		k->release(call);
	free(call->workspace);
	return best;
}

static void call_free(struct gt_call *call)
{
	for (int i = 0; i < call->inputs; i++)
		free(call->in[i].data);
	for (int i = 0; i < call->outputs; i++)
		free(call->out[i].data);
}

static void print_row(const char *name, double flops, double time)
{
	printf("%-52s %9.3f ms %7.1f GFLOP/s  %4.2f\n", name, time * 1e3, flops / time * 1e-9,
	    flops / time * 1e-9 / sgemm_gflops);
	fflush(stdout);
}

static void bench_sgemm(void)
{
	for (int64_t n = 512; n <= 2048 && !is_left_out(2.0 * (double)(n * n * n)); n += 512) {
		float *a = memory((size_t)(n * n) * 4), *b = memory((size_t)(n * n) * 4),
		      *c = memory((size_t)(n * n) * 4);
		double best = 1e9, begin = omp_get_wtime(), flops = 2.0 * (double)(n * n * n);

		for (int i = 0; runs_again(i, begin); i++) {
			double t = omp_get_wtime();

			if (dnnl_sgemm('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n) != dnnl_success)
				exit(1);
			t = omp_get_wtime() - t;
			best = t < best ? t : best;
		}
		printf("dnnl_sgemm %d cubed: %.1f GFLOP/s\n", (int)n, flops / best * 1e-9);
		if (flops / best * 1e-9 > sgemm_gflops)
			sgemm_gflops = flops / best * 1e-9;
		free(a);
		free(b);
		free(c);
	}
}

static void bench_copy(void)
{
	enum { CHUNK = 1 << 20, CHUNKS = 256 };
	char *a = memory((size_t)CHUNK * CHUNKS), *b = memory((size_t)CHUNK * CHUNKS);
	double best = 1e9, begin = omp_get_wtime();

	for (int n = 0; runs_again(n, begin); n++) {
		double t = omp_get_wtime();

#pragma omp parallel for schedule(static)
		for (int i = 0; i < CHUNKS; i++)
			memcpy(a + (size_t)i * CHUNK, b + (size_t)i * CHUNK, CHUNK);
		t = omp_get_wtime() - t;
		best = t < best ? t : best;
	}
	printf("copy of 256 MiB, read + write: %.1f GB/s\n\n", 2.0 * CHUNK * CHUNKS / best * 1e-9);
	free(a);
	free(b);
}

/* ---- matmul ---- */

struct linear {
	const char *name;
	int64_t m, k, n;
	bool trans_b, bias;
};

static const struct linear linears[] = {
	{ "nanoGPT qkv", 768, 128, 384, true, false },
	{ "nanoGPT proj", 768, 128, 128, true, false },
	{ "nanoGPT fc", 768, 128, 512, true, false },
	{ "nanoGPT fc2", 768, 512, 128, true, false },
	{ "nanoGPT head", 768, 128, 65, true, false },
	{ "gpt2 qkv", 256, 768, 2304, false, true },
	{ "gpt2 proj", 256, 768, 768, false, true },
	{ "gpt2 fc", 256, 768, 3072, false, true },
	{ "gpt2 fc2", 256, 3072, 768, false, true },
	{ "gpt2 head", 256, 768, 50257, true, false },
};

static void bench_product(const struct linear *l, const char *what, int64_t m, int64_t n, int64_t k,
    bool ta, bool tb, bool bias)
{
	struct gt_call call = { .inputs = bias ? 3 : 2, .outputs = 1 };
	double flops = 2.0 * (double)(m * n * k);
	char name[80];

	if (is_left_out(flops))
		return;
	call.attrs.matmul.trans_a = ta;
	call.attrs.matmul.trans_b = tb;
	call.in[0] = ta ? tensor(2, k, m, 0, 0) : tensor(2, m, k, 0, 0);
	call.in[1] = tb ? tensor(2, n, k, 0, 0) : tensor(2, k, n, 0, 0);
	if (bias)
		call.in[2] = tensor(1, n, 0, 0, 0);
	call.out[0] = tensor(2, m, n, 0, 0);
	snprintf(name, sizeof(name), "%s %s [%d x %d x %d] %s%s%s", l->name, what, (int)m, (int)n,
	    (int)k, ta ? "T" : "N", tb ? "T" : "N", bias ? " + bias" : "");
	print_row(name, flops, best_run(gt_cpu_matmul_kernels, "matmul", &call));
	call_free(&call);
}

static void bench_matmul(void)
{
	for (size_t i = 0; i < sizeof(linears) / sizeof(linears[0]); i++) {
		const struct linear *l = &linears[i];

		bench_product(l, "y", l->m, l->n, l->k, false, l->trans_b, l->bias);
		bench_product(l, "dx", l->m, l->k, l->n, false, !l->trans_b, false);
		if (l->trans_b)
			bench_product(l, "dw", l->n, l->k, l->m, true, false, false);
		else
			bench_product(l, "dw", l->k, l->n, l->m, true, false, false);
	}
}

/* ---- batches of products ---- */

static const struct {
	int64_t batch, m, n, k;
	bool ta, tb;
} batches[] = {
	{ 24, 197, 197, 64, false, true }, /* scores of attention */
	{ 24, 197, 64, 197, false, false },
	{ 24, 197, 64, 197, true, false },
	{ 96, 50, 50, 32, false, true },
	{ 96, 50, 32, 50, false, false },
	{ 384, 16, 16, 32, false, true },
	{ 384, 16, 32, 16, false, false },
	{ 2, 1024, 1024, 64, false, true },
};

static void bench_batched(void)
{
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		int64_t b = batches[i].batch, m = batches[i].m, n = batches[i].n, k = batches[i].k;
		struct gt_call call = { .inputs = 2, .outputs = 1 };
		char name[80];

		call.attrs.matmul.trans_a = batches[i].ta;
		call.attrs.matmul.trans_b = batches[i].tb;
		call.in[0] = batches[i].ta ? tensor(3, b, k, m, 0) : tensor(3, b, m, k, 0);
		call.in[1] = batches[i].tb ? tensor(3, b, n, k, 0) : tensor(3, b, k, n, 0);
		call.out[0] = tensor(3, b, m, n, 0);
		snprintf(name, sizeof(name), "batched_matmul %d x [%d x %d x %d] %s%s", (int)b,
		    (int)m, (int)n, (int)k, batches[i].ta ? "T" : "N", batches[i].tb ? "T" : "N");
		print_row(name, 2.0 * (double)(b * m * n * k),
		    best_run(gt_cpu_batched_matmul_kernels, "batched_matmul", &call));
		call_free(&call);
	}
}

/* ---- rows ---- */

static void bench_rows(void)
{
	static const int64_t sizes[][2] = { { 24 * 197, 197 }, { 4096, 768 }, { 256, 50257 } };
	static const struct {
		const char *op, *name;
		bool log;
		int inputs;
	} ops[] = { { "layer_norm", "layer_norm", false, 3 }, { "softmax", "softmax", false, 1 },
		{ "softmax", "log_softmax", true, 1 }, { "softmax_grad", "softmax_grad", false, 2 },
		{ "softmax_grad", "log_softmax_grad", true, 2 } };

	for (size_t i = 0; i < 15; i++) {
		int64_t rows = sizes[i / 5][0], n = sizes[i / 5][1];
		bool norm = i % 5 == 0;
		struct gt_call call = { .inputs = ops[i % 5].inputs, .outputs = norm ? 3 : 1 };
		int matrices = ops[i % 5].inputs == 2 ? 3 : 2;
		double time;

		if (norm)
			call.attrs.norm.eps = 1e-5;
		else
			call.attrs.softmax.log = ops[i % 5].log;
		for (int k = 0; k < call.inputs; k++)
			call.in[k] = norm && k ? tensor(1, n, 0, 0, 0) : tensor(2, rows, n, 0, 0);
		for (int k = 0; k < call.outputs; k++)
			call.out[k] = k ? tensor(1, rows, 0, 0, 0) : tensor(2, rows, n, 0, 0);
		time = best_run(
		    norm ? best_tables()->norm : best_tables()->softmax, ops[i % 5].op, &call);
		printf("%-28s %6d x %-6d %9.3f ms %7.1f GB/s\n", ops[i % 5].name, (int)rows, (int)n,
		    time * 1e3, 4.0 * matrices * (double)(rows * n) / time * 1e-9);
		call_free(&call);
	}
}

/* ---- convolutions ---- */

/* Beside the direct sum, where evaluation takes another row of the table. */
static void bench_relaxed(struct gt_call *call, const char *direct, double flops)
{
	char name[100];

	call->attrs.conv.relaxed = true;
	if (!gt_cpu_conv_winograd_kernels[0].accepts(call))
		return;
	snprintf(name, sizeof(name), "%s, Winograd", direct);
	print_row(name, flops, best_run(gt_cpu_conv_winograd_kernels, "conv2d", call));
}

struct conv {
	int64_t b, c, size, o;
	int k, stride, pad, groups;
};

static const struct conv convs[] = {
	{ 128, 3, 32, 16, 3, 1, 1, 1 },
	{ 128, 16, 32, 16, 3, 1, 1, 1 },
	{ 128, 16, 32, 32, 3, 2, 1, 1 },
	{ 128, 32, 16, 32, 3, 1, 1, 1 },
	{ 128, 32, 16, 64, 3, 2, 1, 1 },
	{ 128, 64, 8, 64, 3, 1, 1, 1 },
	{ 64, 1, 28, 6, 5, 1, 2, 1 },
	{ 64, 6, 14, 16, 5, 1, 0, 1 },
	{ 64, 64, 28, 64, 3, 1, 1, 4 },
	{ 64, 96, 28, 96, 3, 1, 1, 96 },
	{ 64, 96, 28, 96, 5, 2, 2, 96 },
};

static void bench_conv(void)
{
	static const char *const ops[] = { "conv2d", "conv2d_input_grad", "conv2d_weight_grad" };

	for (size_t i = 0; i < 3 * sizeof(convs) / sizeof(convs[0]); i++) {
		const struct conv *c = &convs[i / 3];
		int64_t out = (c->size + 2 * c->pad - c->k) / c->stride + 1;
		struct gt_tensor x = tensor(4, c->b, c->c, c->size, c->size);
		struct gt_tensor w = tensor(4, c->o, c->c / c->groups, c->k, c->k);
		struct gt_tensor y = tensor(4, c->b, c->o, out, out);
		struct gt_call call = { .inputs = 2, .outputs = 1 };
		double flops =
		    2.0 * (double)(c->b * c->o * out * out * c->c / c->groups * c->k * c->k);
		char name[90];

		w.layout = GT_PLAIN;
		call.attrs.conv.window = (struct gt_window){ { c->k, c->k },
			{ c->stride, c->stride }, { c->pad, c->pad }, { 1, 1 } };
		call.attrs.conv.groups = c->groups;
		call.attrs.conv.in_height = call.attrs.conv.in_width = c->size;
		call.in[0] = i % 3 == 1 ? y : x;
		call.in[1] = i % 3 == 2 ? y : w;
		call.out[0] = i % 3 == 0 ? y : i % 3 == 1 ? x : w;
		snprintf(name, sizeof(name), "%s %d -> %d, %dx%d, k %d, stride %d, groups %d",
		    ops[i % 3], (int)c->c, (int)c->o, (int)c->size, (int)c->size, c->k, c->stride,
		    c->groups);
		print_row(name, flops, best_run(gt_cpu_conv_kernels, ops[i % 3], &call));
		if (i % 3 == 0)
			bench_relaxed(&call, name, flops);
		call_free(&call);
	}
}

/* ---- attention ---- */

struct attention {
	int64_t b, t, d;
	int heads;
	double p;
};

static const struct attention attentions[] = {
	{ 12, 64, 32, 4, 0 },
	{ 4, 64, 64, 12, 0 },
	{ 8, 256, 64, 6, 0 },
	{ 8, 256, 64, 6, 0.2 },
	{ 1, 1024, 64, 12, 0 },
};

/* Counted: two products forward and five backward over the causal half. */
static void bench_attention(void)
{
	for (size_t i = 0; i < sizeof(attentions) / sizeof(attentions[0]); i++) {
		const struct attention *a = &attentions[i];
		const int64_t seed[GT_RNG_FIELDS] = { 1, 2, 0, 1 };
		struct gt_call f = { .inputs = 2, .outputs = 2 }, g = { .inputs = 5, .outputs = 1 };
		double product = (double)(a->b * a->heads * a->t * a->t * a->d);
		char name[80];

		if (is_left_out(2 * product))
			continue;
		f.attrs.attention.heads = a->heads;
		f.attrs.attention.p = a->p;
		g.attrs = f.attrs;
		f.in[0] = tensor(3, a->b, a->t, 3 * a->heads * a->d, 0);
		f.in[1] = tensor(1, 2 * GT_RNG_FIELDS, 0, 0, 0);
		f.in[1].present = a->p > 0;
		memcpy(f.in[1].data, seed, sizeof(seed));
		f.out[0] = tensor(3, a->b, a->t, a->heads * a->d, 0);
		f.out[1] = tensor(3, a->b, a->heads, a->t, 0);
		g.in[0] = tensor(3, a->b, a->t, a->heads * a->d, 0);
		g.in[1] = f.in[0];
		g.in[2] = f.out[0];
		g.in[3] = f.out[1];
		g.in[4] = f.in[1];
		g.out[0] = tensor(3, a->b, a->t, 3 * a->heads * a->d, 0);
		snprintf(name, sizeof(name), "attention B %d heads %d T %d D %d p %g", (int)a->b,
		    a->heads, (int)a->t, (int)a->d, a->p);
		print_row(name, 2 * product, best_run(best_tables()->attention, "attention", &f));
		snprintf(name, sizeof(name), "attention_grad B %d heads %d T %d D %d p %g",
		    (int)a->b, a->heads, (int)a->t, (int)a->d, a->p);
		print_row(
		    name, 5 * product, best_run(best_tables()->attention, "attention_grad", &g));
		free(g.in[0].data);
		free(g.out[0].data);
		call_free(&f);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = { { "attention", bench_attention }, { "conv", bench_conv },
		{ "matmul", bench_matmul }, { "batched", bench_batched }, { "rows", bench_rows } };

	if (argc > 1)
		seconds_per_row = atof(argv[1]);
	printf("%d threads\n", omp_get_max_threads());
	bench_sgemm();
	bench_copy();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (argc < 3 || strcmp(argv[2], parts[i].name) == 0)
			parts[i].run();
	return 0;
}
