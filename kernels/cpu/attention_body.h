/* attention_body.h - attention for one element type: REAL, NAME(), EXP(), LOG() are given by attention.c. */

enum { NAME(LANES) = VECTOR_BYTES / sizeof(REAL) };
#define LANES NAME(LANES)

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR_BYTES), may_alias));

/* ---- products ---- */

/*
 * c[rows, vectors * LANES] = (add ? c : 0) + a[rows, k] b[k, vectors * LANES]; element (r, p) of a is at
 * a[r * a_row + p * a_col]. rows and vectors are constants where this is called, so that the loops over
 * them unroll and the sums stay in registers.
 */
__attribute__((always_inline)) static inline void NAME(block)(int rows, int vectors, int64_t k,
    const REAL *a, int64_t a_row, int64_t a_col, const REAL *b, int64_t ldb, REAL *c, int64_t ldc,
    bool add)
{
	NAME(vector) sum[8][4];

	for (int r = 0; r < rows; r++)
		for (int v = 0; v < vectors; v++)
			sum[r][v] =
			    add ? *(NAME(vector) *)(c + r * ldc + v * LANES) : (NAME(vector)){ 0 };
	for (int64_t p = 0; p < k; p++) {
		NAME(vector) x[4];

		for (int v = 0; v < vectors; v++)
			x[v] = *(const NAME(vector) *)(b + p * ldb + v * LANES);
		for (int r = 0; r < rows; r++) {
			REAL f = a[r * a_row + p * a_col];

			for (int v = 0; v < vectors; v++)
				sum[r][v] += f * x[v];
		}
	}
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < vectors; v++)
			*(NAME(vector) *)(c + r * ldc + v * LANES) = sum[r][v];
}

/* A matrix b of any number of rows in panels of `panel` columns: element (p, j) is at
 * data[j / panel * next + p * ld + j % panel]. A row-major matrix is one with next = panel. */
struct NAME(panels) {
	const REAL *data;
	int64_t ld, next;
};

/* c[ROWS, n] = (add ? c : 0) + a[ROWS, k] b[k, n], n a multiple of LANES. */
static void NAME(multiply)(int64_t n, int64_t k, const REAL *a, int64_t a_row, int64_t a_col,
    struct NAME(panels) b, REAL *c, int64_t ldc, bool add)
{
	for (int64_t j = 0; j < n; j += PANEL_VECTORS * LANES) {
		const REAL *x = b.data + j / (PANEL_VECTORS * LANES) * b.next;
		int64_t vectors = (n - j) / LANES;

#if PANEL_VECTORS > 2
		if (vectors >= 4) {
			NAME(block)(4, 4, k, a, a_row, a_col, x, b.ld, c + j, ldc, add);
			NAME(block)
			(4, 4, k, a + 4 * a_row, a_row, a_col, x, b.ld, c + 4 * ldc + j, ldc, add);
			continue;
		}
		if (vectors == 3) {
			NAME(block)(4, 3, k, a, a_row, a_col, x, b.ld, c + j, ldc, add);
			NAME(block)
			(4, 3, k, a + 4 * a_row, a_row, a_col, x, b.ld, c + 4 * ldc + j, ldc, add);
			continue;
		}
		if (vectors == 2) {
			NAME(block)(8, 2, k, a, a_row, a_col, x, b.ld, c + j, ldc, add);
			continue;
		}
#else
		if (vectors >= 2) {
			NAME(block)(4, 2, k, a, a_row, a_col, x, b.ld, c + j, ldc, add);
			NAME(block)
			(4, 2, k, a + 4 * a_row, a_row, a_col, x, b.ld, c + 4 * ldc + j, ldc, add);
			continue;
		}
#endif
		NAME(block)(8, 1, k, a, a_row, a_col, x, b.ld, c + j, ldc, add);
	}
}

/* ---- one head, packed ---- */

/* A thread's workspace. Matrices of [rows][Dp] unless told otherwise; the gradient's are NULL in the forward. */
struct NAME(room) {
	REAL *q;         /* [Tr], divided by sqrt(D) */
	REAL *k;         /* [T], gradient */
	REAL *v;         /* [T], forward */
	REAL *kt, *vt;   /* transposed: panels of [D][panel] */
	REAL *dy;        /* [Tr] */
	REAL *dk, *dv;   /* [Tr] */
	REAL *s, *dp;    /* scores and their gradients [ROWS or TILE][ld] */
	REAL *y;         /* [ROWS] */
	uint32_t *words; /* of dropout */
	int64_t ld;      /* Tp and a little, so that rows don't fall on the same cache sets */
};

static void *NAME(take)(char *base, size_t *used, int64_t count, size_t size)
{
	void *p = base ? base + *used : NULL;

	*used += (size_t)round_up(count * (int64_t)size, 64);
	return p;
}

/* Lay the room out from base (NULL: only measure). Returns its bytes. */
static size_t NAME(lay_out)(struct NAME(room) * m, const struct sizes *s, bool gradient, char *base)
{
	size_t used = 0, size = sizeof(REAL);

	*m = (struct NAME(room)){ .ld = s->Tp + LANES };
	m->q = NAME(take)(base, &used, s->Tr * s->Dp, size);
	m->kt = NAME(take)(base, &used, s->D * s->Tp, size);
	m->s = NAME(take)(base, &used, (gradient ? TILE : ROWS) * m->ld, size);
	m->y = NAME(take)(base, &used, ROWS * s->Dp, size);
	m->words = NAME(take)(base, &used, draw_words(s->T), sizeof(uint32_t));
	if (gradient) {
		m->k = NAME(take)(base, &used, s->T * s->Dp, size);
		m->vt = NAME(take)(base, &used, s->D * s->Tp, size);
		m->dy = NAME(take)(base, &used, s->Tr * s->Dp, size);
		m->dk = NAME(take)(base, &used, s->Tr * s->Dp, size);
		m->dv = NAME(take)(base, &used, s->Tr * s->Dp, size);
		m->dp = NAME(take)(base, &used, TILE * m->ld, size);
	} else {
		m->v = NAME(take)(base, &used, s->T * s->Dp, size);
	}
	return used;
}

/* to[rows][Dp] = factor * from[T][D] (rows ld apart), zero beyond. */
static void NAME(pack)(
    REAL *to, int64_t rows, const REAL *from, int64_t ld, const struct sizes *s, REAL factor)
{
	memset(to, 0, (size_t)(rows * s->Dp) * sizeof(REAL));
	for (int64_t i = 0; i < s->T; i++)
		for (int64_t d = 0; d < s->D; d++)
			to[i * s->Dp + d] = factor * from[i * ld + d];
}

/* The transpose of from[T][D] (rows ld apart) in panels [Tp / panel][D][panel], zero beyond T. */
static void NAME(pack_transposed)(REAL *to, const REAL *from, int64_t ld, const struct sizes *s)
{
	for (int64_t j0 = 0; j0 < s->Tp; j0 += LANES) {
		REAL *panel = to + j0 / s->panel * s->panel * s->D + j0 % s->panel;
		int64_t n = s->T - j0 < LANES ? s->T - j0 : LANES;

		for (int64_t d = 0; d < s->D; d++) {
			REAL *lane = panel + d * s->panel;

			if (n == LANES) {
				for (int64_t l = 0; l < LANES; l++)
					lane[l] = from[(j0 + l) * ld + d];
				continue;
			}
			for (int64_t l = 0; l < LANES; l++)
				lane[l] = l < n ? from[(j0 + l) * ld + d] : 0;
		}
	}
}

/* to[i][D] (rows ld apart) = factor * from[i][Dp] for i < rows. */
static void NAME(unpack)(
    REAL *to, int64_t ld, const REAL *from, int64_t rows, const struct sizes *s, REAL factor)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t d = 0; d < s->D; d++)
			to[i * ld + d] = factor * from[i * s->Dp + d];
}

/* Columns that the block of rows from i on needs of the scores. */
static int64_t NAME(columns)(int64_t i)
{
	return round_up(i + ROWS, LANES);
}

/* ---- rows of scores ---- */

/* Mask a row of vectors * LANES scores of which the first `valid` count. */
static void NAME(mask_row)(REAL *row, int64_t valid, int64_t vectors)
{
	for (int64_t j = valid; j < vectors * LANES; j++)
		row[j] = -(REAL)INFINITY;
}

/* row = exp(row - largest), in place. Returns the sum and stores the largest. */
static REAL NAME(exp_row)(REAL *row, int64_t vectors, REAL *largest)
{
	REAL lanes[LANES], m = row[0], sum = 0;

	memcpy(lanes, row, sizeof(lanes));
	for (int64_t v = 1; v < vectors; v++)
		for (int64_t l = 0; l < LANES; l++)
			lanes[l] = row[v * LANES + l] > lanes[l] ? row[v * LANES + l] : lanes[l];
	for (int64_t l = 1; l < LANES; l++)
		m = lanes[l] > m ? lanes[l] : m;
#pragma omp simd reduction(+ : sum)
	for (int64_t j = 0; j < vectors * LANES; j++) {
		row[j] = EXP(row[j] - m);
		sum += row[j];
	}
	*largest = m;
	return sum;
}

/* row *= kept ? scale : 0 */
static void NAME(drop_row)(
    REAL *row, int64_t count, const uint32_t *words, uint32_t threshold, REAL scale)
{
#pragma omp simd
	for (int64_t j = 0; j < count; j++)
		row[j] *= words[j] >> 8 < threshold ? 0 : scale;
}

/* Scores s and gradients dp of what multiplied v: s = p, dp = p (dp - delta), with p = exp(s - lse). */
static void NAME(gradient_row)(REAL *s, REAL *dp, int64_t vectors, REAL lse, REAL delta)
{
#pragma omp simd
	for (int64_t j = 0; j < vectors * LANES; j++) {
		REAL p = EXP(s[j] - lse);

		s[j] = p;
		dp[j] = p * (dp[j] - delta);
	}
}

/* ---- forward ---- */

/* The tensors of one (sample, head): pointers to their first rows, and how far rows are apart. */
struct NAME(head) {
	const REAL *q, *k, *v, *dy, *out;
	REAL *dq, *dk, *dv, *y, *lse;
	int64_t wide, narrow; /* of q, k, v and their gradients; of y, dy */
	int64_t b, index;
};

static void NAME(forward_block)(const struct NAME(head) * h, const struct NAME(room) * m,
    const struct sizes *s, const struct draw *draw, int64_t i0)
{
	const struct NAME(panels) kt = { m->kt, s->panel, s->panel * s->D };
	const struct NAME(panels) v = { m->v, s->Dp, s->panel };
	int64_t n = NAME(columns)(i0), keys = i0 + ROWS < s->T ? i0 + ROWS : s->T;
	REAL factor[ROWS];

	NAME(multiply)(n, s->D, m->q + i0 * s->Dp, s->Dp, 1, kt, m->s, m->ld, false);
	for (int64_t r = 0; i0 + r < keys; r++) {
		REAL *row = m->s + r * m->ld, largest, sum;
		int64_t i = i0 + r;

		NAME(mask_row)(row, i + 1, n / LANES);
		sum = NAME(exp_row)(row, n / LANES, &largest);
		h->lse[i] = largest + LOG(sum);
		factor[r] = 1 / sum;
		if (draw->on) {
			uint64_t c = draw_element(draw, s, h->b, h->index, i);

			NAME(drop_row)
			(row, i + 1, draw_row(draw, c, i + 1, m->words), draw->threshold,
			    (REAL)draw->scale);
		}
	}
	NAME(multiply)(s->Dp, keys, m->s, m->ld, 1, v, m->y, s->Dp, false);
	for (int64_t r = 0; i0 + r < keys; r++)
		NAME(unpack)
		(h->y + (i0 + r) * h->narrow, h->narrow, m->y + r * s->Dp, 1, s, factor[r]);
}

static void NAME(forward_head)(const struct NAME(head) * h, const struct NAME(room) * m,
    const struct sizes *s, const struct draw *draw)
{
	NAME(pack)(m->q, s->Tr, h->q, h->wide, s, (REAL)(1 / sqrt((double)s->D)));
	NAME(pack)(m->v, s->T, h->v, h->wide, s, 1);
	NAME(pack_transposed)(m->kt, h->k, h->wide, s);
	for (int64_t i0 = 0; i0 < s->T; i0 += ROWS)
		NAME(forward_block)(h, m, s, draw, i0);
}

/* ---- gradient ---- */

/* Turn the block's s and dp into dropped probabilities and gradients of scores. */
static void NAME(gradient_rows)(const struct NAME(head) * h, const struct NAME(room) * m,
    const struct sizes *s, const struct draw *draw, int64_t i0, REAL *scores, REAL *dp)
{
	int64_t vectors = NAME(columns)(i0) / LANES;

	for (int64_t i = i0; i < i0 + ROWS && i < s->T; i++) {
		REAL *row = scores + (i - i0) * m->ld, *drow = dp + (i - i0) * m->ld;
		const REAL *dy = m->dy + i * s->Dp, *y = h->out + i * h->narrow;
		const uint32_t *words = NULL;
		REAL delta = 0;

#pragma omp simd reduction(+ : delta)
		for (int64_t d = 0; d < s->D; d++)
			delta += dy[d] * y[d];
		if (draw->on) {
			uint64_t c = draw_element(draw, s, h->b, h->index, i);

			words = draw_row(draw, c, i + 1, m->words);
			NAME(drop_row)(drow, i + 1, words, draw->threshold, (REAL)draw->scale);
		}
		NAME(mask_row)(row, i + 1, vectors);
		NAME(gradient_row)(row, drow, vectors, h->lse[i], delta);
		if (words)
			NAME(drop_row)(row, i + 1, words, draw->threshold, (REAL)draw->scale);
	}
}

/* One block of a tile: its scores and dp at row r of the tile, its dq. */
static void NAME(gradient_block)(const struct NAME(head) * h, const struct NAME(room) * m,
    const struct sizes *s, const struct draw *draw, int64_t i0, int64_t r)
{
	const struct NAME(panels) kt = { m->kt, s->panel, s->panel * s->D };
	const struct NAME(panels) vt = { m->vt, s->panel, s->panel * s->D };
	const struct NAME(panels) k = { m->k, s->Dp, s->panel };
	int64_t n = NAME(columns)(i0), keys = i0 + ROWS < s->T ? i0 + ROWS : s->T;
	REAL *scores = m->s + r * m->ld, *dp = m->dp + r * m->ld;

	NAME(multiply)(n, s->D, m->q + i0 * s->Dp, s->Dp, 1, kt, scores, m->ld, false);
	NAME(multiply)(n, s->D, m->dy + i0 * s->Dp, s->Dp, 1, vt, dp, m->ld, false);
	NAME(gradient_rows)(h, m, s, draw, i0, scores, dp);
	NAME(multiply)(s->Dp, keys, dp, m->ld, 1, k, m->y, s->Dp, false);
	NAME(unpack)
	(h->dq + i0 * h->wide, h->wide, m->y, keys - i0, s, (REAL)(1 / sqrt((double)s->D)));
}

static void NAME(gradient_head)(const struct NAME(head) * h, const struct NAME(room) * m,
    const struct sizes *s, const struct draw *draw)
{
	NAME(pack)(m->q, s->Tr, h->q, h->wide, s, (REAL)(1 / sqrt((double)s->D)));
	NAME(pack)(m->k, s->T, h->k, h->wide, s, 1);
	NAME(pack)(m->dy, s->Tr, h->dy, h->narrow, s, 1);
	NAME(pack_transposed)(m->kt, h->k, h->wide, s);
	NAME(pack_transposed)(m->vt, h->v, h->wide, s);
	memset(m->dk, 0, (size_t)(s->Tr * s->Dp) * sizeof(REAL));
	memset(m->dv, 0, (size_t)(s->Tr * s->Dp) * sizeof(REAL));
	for (int64_t i0 = 0; i0 < s->Tr; i0 += TILE) {
		int64_t end = i0 + TILE < s->Tr ? i0 + TILE : s->Tr;

		for (int64_t i = i0; i < end; i += ROWS)
			NAME(gradient_block)(h, m, s, draw, i, i - i0);
		/* dk += ds^T q and dv += p^T dy, of rows that are not before the keys */
		for (int64_t j = 0; j < end; j += ROWS) {
			int64_t i = j > i0 ? j : i0, at = (i - i0) * m->ld + j;
			struct NAME(panels) q = { m->q + i * s->Dp, s->Dp, s->panel };
			struct NAME(panels) dy = { m->dy + i * s->Dp, s->Dp, s->panel };

			NAME(multiply)
			(s->Dp, end - i, m->dp + at, 1, m->ld, q, m->dk + j * s->Dp, s->Dp, true);
			NAME(multiply)
			(s->Dp, end - i, m->s + at, 1, m->ld, dy, m->dv + j * s->Dp, s->Dp, true);
		}
	}
	NAME(unpack)(h->dk, h->wide, m->dk, s->T, s, 1);
	NAME(unpack)(h->dv, h->wide, m->dv, s->T, s, 1);
}

/* ---- calls ---- */

static int NAME(prepare)(struct gt_call *call, const struct gt_tensor *qkv, bool gradient)
{
	struct sizes s = sizes_of(call, qkv);
	struct NAME(room) room;

	call->workspace_bytes =
	    (size_t)omp_get_max_threads() * NAME(lay_out)(&room, &s, gradient, NULL);
	return 0;
}

static int NAME(forward_prepare)(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	return NAME(prepare)(call, &call->in[0], false);
}

static int NAME(gradient_prepare)(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	return NAME(prepare)(call, &call->in[1], true);
}

static struct NAME(head)
    NAME(forward_head_of)(const struct gt_call *call, const struct sizes *s, int64_t work)
{
	int64_t b = work / s->heads, head = work % s->heads, C = s->heads * s->D;
	const REAL *qkv = (const REAL *)call->in[0].data + b * s->T * 3 * C + head * s->D;
	struct NAME(head) h = { .wide = 3 * C, .narrow = C, .b = b, .index = head };

	h.q = qkv;
	h.k = qkv + C;
	h.v = qkv + 2 * C;
	h.y = (REAL *)call->out[0].data + b * s->T * C + head * s->D;
	h.lse = (REAL *)call->out[1].data + work * s->T;
	return h;
}

static struct NAME(head)
    NAME(gradient_head_of)(const struct gt_call *call, const struct sizes *s, int64_t work)
{
	int64_t b = work / s->heads, head = work % s->heads, C = s->heads * s->D;
	int64_t wide = b * s->T * 3 * C + head * s->D, narrow = b * s->T * C + head * s->D;
	const REAL *qkv = (const REAL *)call->in[1].data + wide;
	REAL *dqkv = (REAL *)call->out[0].data + wide;
	struct NAME(head) h = { .wide = 3 * C, .narrow = C, .b = b, .index = head };

	h.q = qkv;
	h.k = qkv + C;
	h.v = qkv + 2 * C;
	h.dq = dqkv;
	h.dk = dqkv + C;
	h.dv = dqkv + 2 * C;
	h.dy = (const REAL *)call->in[0].data + narrow;
	h.out = (const REAL *)call->in[2].data + narrow;
	h.lse = (REAL *)call->in[3].data + work * s->T;
	return h;
}

static int NAME(forward_run)(struct gt_call *call, struct gt_err *err)
{
	struct sizes s = sizes_of(call, &call->in[0]);
	struct draw draw = draw_of(call, &call->in[1]);
	struct NAME(room) measured;
	size_t bytes = NAME(lay_out)(&measured, &s, false, NULL);
	int threads = (int)(call->workspace_bytes / bytes);

	(void)err;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (int64_t work = 0; work < s.B * s.heads; work++) {
		struct NAME(head) h = NAME(forward_head_of)(call, &s, work);
		struct NAME(room) room;

		NAME(lay_out)
		(&room, &s, false, (char *)call->workspace + (size_t)omp_get_thread_num() * bytes);
		NAME(forward_head)(&h, &room, &s, &draw);
	}
	return 0;
}

static int NAME(gradient_run)(struct gt_call *call, struct gt_err *err)
{
	struct sizes s = sizes_of(call, &call->in[1]);
	struct draw draw = draw_of(call, &call->in[4]);
	struct NAME(room) measured;
	size_t bytes = NAME(lay_out)(&measured, &s, true, NULL);
	int threads = (int)(call->workspace_bytes / bytes);

	(void)err;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (int64_t work = 0; work < s.B * s.heads; work++) {
		struct NAME(head) h = NAME(gradient_head_of)(call, &s, work);
		struct NAME(room) room;

		NAME(lay_out)
		(&room, &s, true, (char *)call->workspace + (size_t)omp_get_thread_num() * bytes);
		NAME(gradient_head)(&h, &room, &s, &draw);
	}
	return 0;
}

#undef LANES
