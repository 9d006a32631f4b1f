/* attention_body.h - attention for one element type: REAL, INTEGER, NAME(), EXP(), LOG() are given by attention.c. */

enum { NAME(LANES) = VECTOR_BYTES / sizeof(REAL) };

#define LANES  NAME(LANES)
#define VECTOR NAME(vector)
#define MASK   NAME(mask)
#define PANELS struct NAME(panels)
#define ROOM   struct NAME(room)
#define HEAD   struct NAME(head)

typedef REAL VECTOR __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef INTEGER MASK __attribute__((vector_size(VECTOR_BYTES))); /* of REAL's size */

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
	VECTOR sum[8][4];

	for (int r = 0; r < rows; r++)
		for (int v = 0; v < vectors; v++)
			sum[r][v] = add ? *(VECTOR *)(c + r * ldc + v * LANES) : (VECTOR){ 0 };
	for (int64_t p = 0; p < k; p++) {
		VECTOR x[4];

		for (int v = 0; v < vectors; v++)
			x[v] = *(const VECTOR *)(b + p * ldb + v * LANES);
		for (int r = 0; r < rows; r++) {
			REAL f = a[r * a_row + p * a_col];

			for (int v = 0; v < vectors; v++)
				sum[r][v] += f * x[v];
		}
	}
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < vectors; v++)
			*(VECTOR *)(c + r * ldc + v * LANES) = sum[r][v];
}

/* The same for ROWS rows, `rows` at a time. */
__attribute__((always_inline)) static inline void NAME(blocks)(int rows, int vectors, int64_t k,
    const REAL *a, int64_t a_row, int64_t a_col, const REAL *b, int64_t ldb, REAL *c, int64_t ldc,
    bool add)
{
	for (int r = 0; r < ROWS; r += rows, a += rows * a_row, c += rows * ldc)
		NAME(block)(rows, vectors, k, a, a_row, a_col, b, ldb, c, ldc, add);
}

/* A matrix of any number of rows in panels of PANEL_VECTORS * LANES columns, `next` apart; rows of a panel are `ld`
 * apart. A row-major matrix is one where a panel starts beside the last. */
struct NAME(panels) {
	const REAL *data;
	int64_t ld, next;
};

/* c[ROWS, n] = (add ? c : 0) + a[ROWS, k] b[k, n], n a multiple of LANES. */
static void NAME(multiply)(int64_t n, int64_t k, const REAL *a, int64_t a_row, int64_t a_col,
    const PANELS *b, REAL *c, int64_t ldc, bool add)
{
	const int rows_of_two = PANEL_VECTORS == 4 ? 8 : 4;
	const REAL *x = b->data;

	for (int64_t left = n / LANES; left > 0; left -= PANEL_VECTORS) {
		switch (left < PANEL_VECTORS ? left : PANEL_VECTORS) {
		case 4:
			NAME(blocks)(4, 4, k, a, a_row, a_col, x, b->ld, c, ldc, add);
			break;
		case 3:
			NAME(blocks)(4, 3, k, a, a_row, a_col, x, b->ld, c, ldc, add);
			break;
		case 2:
			NAME(blocks)(rows_of_two, 2, k, a, a_row, a_col, x, b->ld, c, ldc, add);
			break;
		default:
			NAME(blocks)(8, 1, k, a, a_row, a_col, x, b->ld, c, ldc, add);
		}
		x += b->next;
		c += PANEL_VECTORS * LANES;
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
static size_t NAME(lay_out)(ROOM *m, const struct sizes *s, bool gradient, char *base)
{
	size_t used = 0, size = sizeof(REAL);

	*m = (ROOM){ .ld = s->Tp + LANES };
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

/* to[rows][Dp] = factor * from[T][D] (rows ld apart), zero from row T on. Columns from D on are not written: they
 * only make columns that nobody reads. */
static void NAME(pack)(REAL *restrict to, int64_t rows, const REAL *restrict from, int64_t ld,
    const struct sizes *s, REAL factor)
{
	memset(to + s->T * s->Dp, 0, (size_t)((rows - s->T) * s->Dp) * sizeof(REAL));
	for (int64_t i = 0; i < s->T; i++)
		for (int64_t d = 0; d < s->D; d++)
			to[i * s->Dp + d] = factor * from[i * ld + d];
}

/* The transpose of from[T][D] (rows ld apart) in panels [Tp / panel][D][panel], zero beyond T. */
static void NAME(pack_transposed)(
    REAL *restrict to, const REAL *restrict from, int64_t ld, const struct sizes *s)
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
static void NAME(unpack)(REAL *restrict to, int64_t ld, const REAL *restrict from, int64_t rows,
    const struct sizes *s, REAL factor)
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

/* Where c is true (all bits) a, elsewhere b. */
static inline VECTOR NAME(select)(MASK c, VECTOR a, VECTOR b)
{
	return (VECTOR)((c & (MASK)a) | (~c & (MASK)b));
}

/* x[l] = the larger of, or the sum of, x[l] and x[l + half]: an operation or two, as half is a constant. */
__attribute__((always_inline)) static inline void NAME(fold_largest)(REAL *x, int half)
{
	for (int l = 0; l < half && half < LANES; l++)
		x[l] = x[l + half] > x[l] ? x[l + half] : x[l];
}

__attribute__((always_inline)) static inline void NAME(fold_sum)(REAL *x, int half)
{
	for (int l = 0; l < half && half < LANES; l++)
		x[l] += x[l + half];
}

static inline REAL NAME(largest_lane)(VECTOR v)
{
	REAL x[LANES];

	memcpy(x, &v, sizeof(x));
	NAME(fold_largest)(x, 8);
	NAME(fold_largest)(x, 4);
	NAME(fold_largest)(x, 2);
	NAME(fold_largest)(x, 1);
	return x[0];
}

static inline REAL NAME(sum_of_lanes)(VECTOR v)
{
	REAL x[LANES];

	memcpy(x, &v, sizeof(x));
	NAME(fold_sum)(x, 8);
	NAME(fold_sum)(x, 4);
	NAME(fold_sum)(x, 2);
	NAME(fold_sum)(x, 1);
	return x[0];
}

/* Set a row of vectors to -inf from `valid` on. Returns the largest element. */
static REAL NAME(mask_row)(REAL *row, int valid, int vectors)
{
	VECTOR minus_infinity = -(REAL)INFINITY - (VECTOR){ 0 };
	VECTOR largest = minus_infinity;
	MASK left;

	for (int l = 0; l < LANES; l++)
		left[l] = valid - l;
	for (int v = 0; v < vectors; v++) {
		VECTOR *at = (VECTOR *)(row + v * LANES);
		VECTOR x = NAME(select)(left > 0, *at, minus_infinity);

		*at = x;
		largest = NAME(select)(x > largest, x, largest);
		left -= LANES;
	}
	return NAME(largest_lane)(largest);
}

/* row = exp(row - shift). Returns the sum. */
static REAL NAME(exp_row)(REAL *row, int vectors, REAL shift)
{
	VECTOR sum = { 0 };

	for (int j = 0; j < vectors * LANES; j++)
		row[j] = EXP(row[j] - shift);
	for (int v = 0; v < vectors; v++)
		sum += *(VECTOR *)(row + v * LANES);
	return NAME(sum_of_lanes)(sum);
}

/* row *= kept ? scale : 0 */
static void NAME(drop_row)(REAL *restrict row, int64_t count, const uint32_t *restrict words,
    uint32_t threshold, REAL scale)
{
#pragma omp simd
	for (int64_t j = 0; j < count; j++)
		row[j] *= words[j] >> 8 < threshold ? 0 : scale;
}

/* Masked scores s and gradients dp of what multiplied v: s = p, dp = p (dp - delta), with p = exp(s - lse). */
static void NAME(gradient_row)(
    REAL *restrict s, REAL *restrict dp, int vectors, REAL lse, REAL delta)
{
	for (int j = 0; j < vectors * LANES; j++) {
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

static void NAME(forward_block)(
    const HEAD *h, const ROOM *m, const struct sizes *s, const struct draw *draw, int64_t i0)
{
	const PANELS kt = { m->kt, s->panel, s->panel * s->D };
	const PANELS v = { m->v, s->Dp, s->panel };
	int64_t n = NAME(columns)(i0), keys = i0 + ROWS < s->T ? i0 + ROWS : s->T;
	REAL largest[ROWS] = { 0 }, sum[ROWS] = { 0 };
	int vectors = (int)(n / LANES);

	NAME(multiply)(n, s->D, m->q + i0 * s->Dp, s->Dp, 1, &kt, m->s, m->ld, false);
	for (int64_t r = 0; i0 + r < keys; r++) {
		REAL *row = m->s + r * m->ld;
		int64_t i = i0 + r;

		largest[r] = NAME(mask_row)(row, (int)i + 1, vectors);
		sum[r] = NAME(exp_row)(row, vectors, largest[r]);
		if (draw->on) {
			uint64_t c = draw_element(draw, s, h->b, h->index, i);
			const uint32_t *words = draw_row(draw, c, i + 1, m->words);

			NAME(drop_row)(row, i + 1, words, draw->threshold, (REAL)draw->scale);
		}
	}
	for (int r = 0; r < ROWS; r++)
		largest[r] += LOG(sum[r]);
	memcpy(h->lse + i0, largest, (size_t)(keys - i0) * sizeof(REAL));
	NAME(multiply)(s->Dp, keys, m->s, m->ld, 1, &v, m->y, s->Dp, false);
	for (int64_t r = 0; i0 + r < keys; r++) {
		REAL *y = h->y + (i0 + r) * h->narrow;

		NAME(unpack)(y, h->narrow, m->y + r * s->Dp, 1, s, 1 / sum[r]);
	}
}

static void NAME(forward_head)(
    const HEAD *h, const ROOM *m, const struct sizes *s, const struct draw *draw)
{
	NAME(pack)(m->q, s->Tr, h->q, h->wide, s, (REAL)s->scale);
	NAME(pack)(m->v, s->T, h->v, h->wide, s, 1);
	NAME(pack_transposed)(m->kt, h->k, h->wide, s);
	for (int64_t i0 = 0; i0 < s->T; i0 += ROWS)
		NAME(forward_block)(h, m, s, draw, i0);
}

/* ---- gradient ---- */

/* Turn the block's s and dp into dropped probabilities and gradients of scores. */
static void NAME(gradient_rows)(const HEAD *h, const ROOM *m, const struct sizes *s,
    const struct draw *draw, int64_t i0, REAL *scores, REAL *dp)
{
	int vectors = (int)(NAME(columns)(i0) / LANES);

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
		NAME(mask_row)(row, (int)i + 1, vectors);
		NAME(gradient_row)(row, drow, vectors, h->lse[i], delta);
		if (words)
			NAME(drop_row)(row, i + 1, words, draw->threshold, (REAL)draw->scale);
	}
}

/* One block of a tile: its scores and dp at row r of the tile, its dq. */
static void NAME(gradient_block)(const HEAD *h, const ROOM *m, const struct sizes *s,
    const struct draw *draw, int64_t i0, int64_t r)
{
	const PANELS kt = { m->kt, s->panel, s->panel * s->D };
	const PANELS vt = { m->vt, s->panel, s->panel * s->D };
	const PANELS k = { m->k, s->Dp, s->panel };
	int64_t n = NAME(columns)(i0), keys = i0 + ROWS < s->T ? i0 + ROWS : s->T;
	REAL *scores = m->s + r * m->ld, *dp = m->dp + r * m->ld;

	NAME(multiply)(n, s->D, m->q + i0 * s->Dp, s->Dp, 1, &kt, scores, m->ld, false);
	NAME(multiply)(n, s->D, m->dy + i0 * s->Dp, s->Dp, 1, &vt, dp, m->ld, false);
	NAME(gradient_rows)(h, m, s, draw, i0, scores, dp);
	NAME(multiply)(s->Dp, keys, dp, m->ld, 1, &k, m->y, s->Dp, false);
	NAME(unpack)(h->dq + i0 * h->wide, h->wide, m->y, keys - i0, s, (REAL)s->scale);
}

/* dk += ds^T q and dv += p^T dy of keys [j, j + ROWS) and those rows of the tile [i0, end) that see them. */
static void NAME(add_to_keys)(
    const ROOM *m, const struct sizes *s, int64_t i0, int64_t end, int64_t j)
{
	int64_t i = j > i0 ? j : i0, at = (i - i0) * m->ld + j, n = s->Dp;
	const PANELS q = { m->q + i * n, n, s->panel };
	const PANELS dy = { m->dy + i * n, n, s->panel };

	NAME(multiply)(n, end - i, m->dp + at, 1, m->ld, &q, m->dk + j * n, n, true);
	NAME(multiply)(n, end - i, m->s + at, 1, m->ld, &dy, m->dv + j * n, n, true);
}

static void NAME(gradient_head)(
    const HEAD *h, const ROOM *m, const struct sizes *s, const struct draw *draw)
{
	NAME(pack)(m->q, s->Tr, h->q, h->wide, s, (REAL)s->scale);
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
		for (int64_t j = 0; j < end; j += ROWS)
			NAME(add_to_keys)(m, s, i0, end, j);
	}
	NAME(unpack)(h->dk, h->wide, m->dk, s->T, s, 1);
	NAME(unpack)(h->dv, h->wide, m->dv, s->T, s, 1);
}

/* ---- calls ---- */

static int NAME(prepare)(struct gt_call *call, const struct gt_tensor *qkv, bool gradient)
{
	struct sizes s = sizes_of(call, qkv);
	ROOM room;

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

static HEAD NAME(forward_head_of)(const struct gt_call *call, const struct sizes *s, int64_t work)
{
	int64_t b = work / s->heads, head = work % s->heads, C = s->heads * s->D;
	const REAL *qkv = (const REAL *)call->in[0].data + b * s->T * 3 * C + head * s->D;
	HEAD h = { .wide = 3 * C, .narrow = C, .b = b, .index = head };

	h.q = qkv;
	h.k = qkv + C;
	h.v = qkv + 2 * C;
	h.y = (REAL *)call->out[0].data + b * s->T * C + head * s->D;
	h.lse = (REAL *)call->out[1].data + work * s->T;
	return h;
}

static HEAD NAME(gradient_head_of)(const struct gt_call *call, const struct sizes *s, int64_t work)
{
	int64_t b = work / s->heads, head = work % s->heads, C = s->heads * s->D;
	int64_t wide = b * s->T * 3 * C + head * s->D, narrow = b * s->T * C + head * s->D;
	const REAL *qkv = (const REAL *)call->in[1].data + wide;
	REAL *dqkv = (REAL *)call->out[0].data + wide;
	HEAD h = { .wide = 3 * C, .narrow = C, .b = b, .index = head };

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
	ROOM measured;
	size_t bytes = NAME(lay_out)(&measured, &s, false, NULL);
	int threads = (int)(call->workspace_bytes / bytes);

	(void)err;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (int64_t work = 0; work < s.B * s.heads; work++) {
		HEAD h = NAME(forward_head_of)(call, &s, work);
		ROOM room;
		char *workspace = (char *)call->workspace + (size_t)omp_get_thread_num() * bytes;

		NAME(lay_out)(&room, &s, false, workspace);
		NAME(forward_head)(&h, &room, &s, &draw);
	}
	return 0;
}

static int NAME(gradient_run)(struct gt_call *call, struct gt_err *err)
{
	struct sizes s = sizes_of(call, &call->in[1]);
	struct draw draw = draw_of(call, &call->in[4]);
	ROOM measured;
	size_t bytes = NAME(lay_out)(&measured, &s, true, NULL);
	int threads = (int)(call->workspace_bytes / bytes);

	(void)err;
#pragma omp parallel for schedule(static) num_threads(threads)
	for (int64_t work = 0; work < s.B * s.heads; work++) {
		HEAD h = NAME(gradient_head_of)(call, &s, work);
		ROOM room;
		char *workspace = (char *)call->workspace + (size_t)omp_get_thread_num() * bytes;

		NAME(lay_out)(&room, &s, true, workspace);
		NAME(gradient_head)(&h, &room, &s, &draw);
	}
	return 0;
}

#undef LANES
#undef VECTOR
#undef MASK
#undef PANELS
#undef ROOM
#undef HEAD
