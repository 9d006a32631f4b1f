/* mma.cuh - products of 16 x 16 tiles by a warp, on tensor cores for types that they support. */
#ifndef GT_KERNELS_CUDA_CORE_MMA_CUH
#define GT_KERNELS_CUDA_CORE_MMA_CUH

#include "kernels/cuda/core/gpu.cuh"

/*
 * Like gpu.cuh, this file has two versions of its functions: one for nvcc, and one for the
 * simulator that runs kernels on the CPU in tests.
 *
 * gt_tile_mma<B, A>(sum, a, lda, b, ldb) adds the matrix product of a[16, 16] and b[16, 16] to the
 * tile sum[16, 16]. All lanes of a warp call it together.
 *
 *   sum    Each lane holds 8 elements in its registers. Element e of a lane is at row
 *          gt_tile_row(e) and column gt_tile_col(e) of the tile. So the lanes 4 * r to 4 * r + 3
 *          hold the rows r and r + 8.
 *   a, b   Both factors are in shared memory.
 *          Element (m, k) of a is a[m * lda + k], or a[k * lda + m] if A is GT_TILE_TRANSPOSED.
 *          Element (k, n) of b is b[k * ldb + n], or b[n * ldb + k] if B is GT_TILE_TRANSPOSED.
 *
 * For 16-bit types, the sums are float32, and each row of a and b in memory must begin at a
 * multiple of 16 bytes.
 *
 * The lanes hold the elements of `sum` in the layout that the instruction mma.m16n8k16 requires.
 * One such instruction computes the left half of the tile, and another one the right half (PTX ISA,
 * "Matrix Fragments for mma.m16n8k16"). The instruction mma.m16n8k8 for TF32 requires the same
 * layout of `sum`.
 */
enum gt_tile_order { GT_TILE_PLAIN, GT_TILE_TRANSPOSED };

/* Rows and columns of a tile, and elements of the tile that one lane holds. */
enum { GT_TILE = 16, GT_TILE_LANE = 8 };

/*
 * A float32 that tensor cores multiply as TF32. gt_tile_mma() rounds it to 10 bits of mantissa, to
 * nearest, ties away from zero. It is loaded and stored unrounded, and everything else is computed
 * in float32. Kernels for float32 are compiled for this type, too. A kernel call with the attribute
 * tf32 (lib/graph/attrs.h) uses that version.
 */
struct gt_tf32 {
	float value;
};
template <> struct gt_wide<gt_tf32> {
	typedef float type;
};

__device__ __forceinline__ float gt_load(gt_tf32 x)
{
	return x.value;
}

__device__ __forceinline__ void gt_store(gt_tf32 *to, float x)
{
	to->value = x;
}

/* The type of elements in kernel calls with the attribute tf32: gt_tf32 instead of float; other
 * types T stay the same. */
template <class T> struct gt_rounded {
	typedef T type;
};
template <> struct gt_rounded<float> {
	typedef gt_tf32 type;
};

/* gt_has_mma<T>::value is true if gt_tile_mma() uses tensor cores for elements of type T. */
template <class T> struct gt_has_mma {
	enum { value = sizeof(T) == 2 };
};
template <> struct gt_has_mma<gt_tf32> {
	enum { value = true };
};

/* Return the row, or the column, of element e of the calling lane in the tile. */
static __device__ __forceinline__ int gt_tile_row(int e)
{
	return (int)threadIdx.x % 32 / 4 + e / 2 % 2 * 8;
}

static __device__ __forceinline__ int gt_tile_col(int e)
{
	return (int)threadIdx.x % 4 * 2 + e % 2 + e / 4 * 8;
}

/* GT_UNROLL unrolls the following loop completely, GT_UNROLL_SOME only by a few iterations, and
 * GT_NO_UNROLL not at all. Complete unrolling can need too many registers, because the compiler
 * loads the values of later iterations early. */
#ifdef __CUDACC__
#define GT_UNROLL      _Pragma("unroll")
#define GT_NO_UNROLL   _Pragma("unroll 1")
#define GT_UNROLL_SOME _Pragma("unroll (16 / sizeof(T))")
#else
#define GT_UNROLL
#define GT_NO_UNROLL
#define GT_UNROLL_SOME
#endif

/* Return the value of a factor in the wide type. The simulator rounds a gt_tf32 to TF32 here. On
 * GPUs, gt_tile_mma() for gt_tf32 rounds it. */
template <class T> __device__ __forceinline__ typename gt_wide<T>::type gt_tile_factor(T x)
{
	return gt_load(x);
}

#ifndef __CUDACC__
inline float gt_tile_factor(gt_tf32 x)
{
	return cudasim_tf32(x.value);
}
#endif

/* gt_tile_mma() without tensor cores: each lane computes its 8 elements with multiply-adds. */
template <gt_tile_order B, gt_tile_order A, class T>
__device__ __forceinline__ void gt_tile_multiply(
    typename gt_wide<T>::type (&sum)[GT_TILE_LANE], const T *a, int lda, const T *b, int ldb)
{
	typedef typename gt_wide<T>::type wide;
	const int to_row = A == GT_TILE_PLAIN ? lda : 1, to_k = A == GT_TILE_PLAIN ? 1 : lda;
	const T *row = a + gt_tile_row(0) * to_row;

	GT_UNROLL_SOME
	for (int k = 0; k < GT_TILE; k++) {
		wide x[] = { gt_tile_factor(row[k * to_k]),
			gt_tile_factor(row[8 * to_row + k * to_k]) };
		wide y[4];

		for (int n = 0; n < 4; n++) {
			int col = gt_tile_col(n % 2 + n / 2 * 4);

			y[n] = gt_tile_factor(
			    B == GT_TILE_TRANSPOSED ? b[col * ldb + k] : b[k * ldb + col]);
		}
		for (int e = 0; e < GT_TILE_LANE; e++)
			sum[e] += x[e / 2 % 2] * y[e % 2 + e / 4 * 2];
	}
}

template <gt_tile_order B, gt_tile_order A = GT_TILE_PLAIN>
__device__ __forceinline__ void gt_tile_mma(
    float (&sum)[GT_TILE_LANE], const float *a, int lda, const float *b, int ldb)
{
	gt_tile_multiply<B, A>(sum, a, lda, b, ldb);
}

template <gt_tile_order B, gt_tile_order A = GT_TILE_PLAIN>
__device__ __forceinline__ void gt_tile_mma(
    double (&sum)[GT_TILE_LANE], const double *a, int lda, const double *b, int ldb)
{
	gt_tile_multiply<B, A>(sum, a, lda, b, ldb);
}

#ifdef __CUDACC__
/* Load four 8 x 8 matrices of a 16-bit type from shared memory, by the instruction ldmatrix. Each
 * lane passes the address of one row. */
template <bool TRANSPOSE>
__device__ __forceinline__ void gt_tile_fetch(uint32_t (&r)[4], const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

	if (TRANSPOSE)
		asm volatile(
		    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		    : "r"(at)
		    : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		             : "r"(at)
		             : "memory");
}

/* Instruction mma.m16n8k16: add the product of a[16, 16] and b[16, 8], which have a 16-bit type, to
 * the left or right half of a tile. `type` is the name of the type in PTX. `sum`, `a` and `b` are
 * the arguments of gt_tile_half() below. */
#define GT_TILE_HALF(type)                                                                         \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                        \
	             ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
	             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                      \
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

__device__ __forceinline__ void gt_tile_half(
    float *sum, const uint32_t *a, const uint32_t *b, gt_bf16)
{
	GT_TILE_HALF("bf16");
}

__device__ __forceinline__ void gt_tile_half(
    float *sum, const uint32_t *a, const uint32_t *b, gt_f16)
{
	GT_TILE_HALF("f16");
}

/* Round x to TF32 and return its bits. */
__device__ __forceinline__ uint32_t gt_tile_round(gt_tf32 x)
{
	uint32_t r;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x.value));
	return r;
}

/* Instruction mma.m16n8k8: add the product of a[16, 8] and b[8, 8], which are TF32, to the left or
 * right half of a tile. */
__device__ __forceinline__ void gt_tile_eight(
    float *sum, const uint32_t (&a)[4], const uint32_t (&b)[2])
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
	             "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* gt_tile_mma() for TF32. In each instruction, lane 4 * r + c passes a[r][k], a[r + 8][k] and
 * b[k][r] for k = c and k = c + 4 (PTX ISA, "Matrix Fragments for mma.m16n8k8"). */
template <gt_tile_order B, gt_tile_order A = GT_TILE_PLAIN>
__device__ __forceinline__ void gt_tile_mma(
    float (&sum)[GT_TILE_LANE], const gt_tf32 *a, int lda, const gt_tf32 *b, int ldb)
{
	const int a_row = A == GT_TILE_PLAIN ? lda : 1, a_k = A == GT_TILE_PLAIN ? 1 : lda;
	const int b_col = B == GT_TILE_PLAIN ? 1 : ldb, b_k = B == GT_TILE_PLAIN ? ldb : 1;
	int r = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;

	a += r * a_row + c * a_k;
	b += r * b_col + c * b_k;
	GT_UNROLL
	for (int k = 0; k < GT_TILE; k += 8) {
		uint32_t x[] = { gt_tile_round(a[k * a_k]), gt_tile_round(a[8 * a_row + k * a_k]),
			gt_tile_round(a[(k + 4) * a_k]),
			gt_tile_round(a[8 * a_row + (k + 4) * a_k]) };

		GT_UNROLL
		for (int n = 0; n < 2; n++) {
			uint32_t y[] = { gt_tile_round(b[n * 8 * b_col + k * b_k]),
				gt_tile_round(b[n * 8 * b_col + (k + 4) * b_k]) };

			gt_tile_eight(sum + 4 * n, x, y);
		}
	}
}

template <gt_tile_order B, gt_tile_order A = GT_TILE_PLAIN, class T>
__device__ __forceinline__ void gt_tile_mma(
    float (&sum)[GT_TILE_LANE], const T *a, int lda, const T *b, int ldb)
{
	int lane = (int)threadIdx.x % 32, row = lane % 16, half = lane / 16 * 8;
	uint32_t x[4], y[4];

	if (A == GT_TILE_TRANSPOSED)
		gt_tile_fetch<true>(x, a + (lane % 8 + half) * lda + lane / 8 % 2 * 8);
	else
		gt_tile_fetch<false>(x, a + row * lda + half);
	if (B == GT_TILE_TRANSPOSED)
		gt_tile_fetch<false>(y, b + (lane % 8 + half) * ldb + lane / 8 % 2 * 8);
	else
		gt_tile_fetch<true>(y, b + row * ldb + half);
	gt_tile_half(sum, x, y, T());
	gt_tile_half(sum + 4, x, y + 2, T());
}
#else
template <gt_tile_order B, gt_tile_order A = GT_TILE_PLAIN, class T>
inline void gt_tile_mma(float (&sum)[GT_TILE_LANE], const T *a, int lda, const T *b, int ldb)
{
	gt_tile_multiply<B, A>(sum, a, lda, b, ldb);
}
#endif

/*
 * Compute M x N tiles at once, for a 16-bit type T. Tile (m, n) is
 *
 *   sum[m][n] += rows [16 * m, 16 * m + 16) of a, times the transpose of
 *                rows [16 * n, 16 * n + 16) of b
 *
 * a[16 * M, 16] and b[16 * N, 16] are in shared memory; their rows are lda and ldb elements apart.
 * Each factor is read from shared memory once. M * N calls of gt_tile_mma() would read the factor
 * `a` N times, and the factor `b` M times.
 */
template <int M, int N, class T>
__device__ __forceinline__ void gt_tile_grid(
    float (&sum)[M][N][GT_TILE_LANE], const T *a, int lda, const T *b, int ldb)
{
#ifdef __CUDACC__
	int lane = (int)threadIdx.x % 32, half = lane / 16 * 8;
	uint32_t x[M][4], y[4];

	GT_UNROLL
	for (int m = 0; m < M; m++)
		gt_tile_fetch<false>(x[m], a + (m * GT_TILE + lane % 16) * lda + half);
	GT_UNROLL
	for (int n = 0; n < N; n++) {
		gt_tile_fetch<false>(
		    y, b + (n * GT_TILE + lane % 8 + half) * ldb + lane / 8 % 2 * 8);
		GT_UNROLL
		for (int m = 0; m < M; m++) {
			gt_tile_half(sum[m][n], x[m], y, T());
			gt_tile_half(sum[m][n] + 4, x[m], y + 2, T());
		}
	}
#else
	for (int m = 0; m < M; m++)
		for (int n = 0; n < N; n++)
			gt_tile_mma<GT_TILE_TRANSPOSED>(
			    sum[m][n], a + m * GT_TILE * lda, lda, b + n * GT_TILE * ldb, ldb);
#endif
}

/*
 * A factor a[16, 16] that a warp keeps in registers, for products with several factors b. T is a
 * 16-bit type. All lanes of a warp call these functions together.
 *
 *   gt_hold(held, a, lda)       Read the factor from shared memory. Element (m, k) is
 *                               a[m * lda + k].
 *   gt_hold_sums(held, sum)     Round a tile of sums to T and make it the factor. So (x * y) * b
 *                               needs no shared memory for x * y.
 *   gt_tile_mma_held<B>(sum, held, b, ldb)
 *                               sum[m] += held[m] * b for M factors; b is read once. The order B
 *                               is as for gt_tile_mma().
 *
 * gt_hold_sums() moves no data between lanes on a GPU. The matrix instruction needs, in lane
 * 4 * r + c, the elements of a in rows r and r + 8 and in columns 2 * c, 2 * c + 1, 2 * c + 8 and
 * 2 * c + 9. These are the elements of `sum` that this lane has. In the simulator, each lane keeps
 * its two rows of the factor.
 */
template <class T> struct gt_held {
#ifdef __CUDACC__
	uint32_t r[4];
#else
	float row[2][GT_TILE];
#endif
};

#ifdef __CUDACC__
/* Round two floats to T; `low` gets the lower 16 bits of the result. */
__device__ __forceinline__ uint32_t gt_tile_two(float low, float high, gt_bf16)
{
	uint32_t r;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

__device__ __forceinline__ uint32_t gt_tile_two(float low, float high, gt_f16)
{
	uint32_t r;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

template <class T> __device__ __forceinline__ void gt_hold(gt_held<T> &held, const T *a, int lda)
{
	int lane = (int)threadIdx.x % 32;

	gt_tile_fetch<false>(held.r, a + lane % 16 * lda + lane / 16 * 8);
}

template <class T>
__device__ __forceinline__ void gt_hold_sums(gt_held<T> &held, const float (&sum)[GT_TILE_LANE])
{
	GT_UNROLL
	for (int i = 0; i < 4; i++)
		held.r[i] = gt_tile_two(sum[2 * i], sum[2 * i + 1], T());
}

template <gt_tile_order B, int M, class T>
__device__ __forceinline__ void gt_tile_mma_held(
    float (&sum)[M][GT_TILE_LANE], const gt_held<T> (&held)[M], const T *b, int ldb)
{
	int lane = (int)threadIdx.x % 32, half = lane / 16 * 8;
	uint32_t y[4];

	if (B == GT_TILE_TRANSPOSED)
		gt_tile_fetch<false>(y, b + (lane % 8 + half) * ldb + lane / 8 % 2 * 8);
	else
		gt_tile_fetch<true>(y, b + lane % 16 * ldb + half);
	GT_UNROLL
	for (int m = 0; m < M; m++) {
		gt_tile_half(sum[m], held[m].r, y, T());
		gt_tile_half(sum[m] + 4, held[m].r, y + 2, T());
	}
}
#else
template <class T> inline void gt_hold(gt_held<T> &held, const T *a, int lda)
{
	for (int h = 0; h < 2; h++)
		for (int k = 0; k < GT_TILE; k++)
			held.row[h][k] = gt_load(a[gt_tile_row(2 * h) * lda + k]);
}

template <class T> inline void gt_hold_sums(gt_held<T> &held, const float (&sum)[GT_TILE_LANE])
{
	struct four {
		T x[4]; /* of two rows, two columns */
	} own;

	for (int side = 0; side < 2; side++) {
		for (int e = 0; e < 4; e++)
			gt_store(&own.x[e], sum[side * 4 + e]);
		for (unsigned c = 0; c < 4; c++) {
			four other = __shfl_sync(0xffffffffu, own, (cudasim_lane() & ~3u) + c);

			for (int e = 0; e < 4; e++)
				held.row[e / 2][side * 8 + (int)c * 2 + e % 2] =
				    gt_load(other.x[e]);
		}
	}
}

template <gt_tile_order B, int M, class T>
inline void gt_tile_mma_held(
    float (&sum)[M][GT_TILE_LANE], const gt_held<T> (&held)[M], const T *b, int ldb)
{
	for (int e = 0; e < GT_TILE_LANE; e++) {
		int col = gt_tile_col(e);
		const T *y = B == GT_TILE_TRANSPOSED ? b + col * ldb : b + col;

		for (int k = 0; k < GT_TILE; k++) {
			float factor = gt_load(y[B == GT_TILE_TRANSPOSED ? k : k * ldb]);

			for (int m = 0; m < M; m++)
				sum[m][e] += held[m].row[e / 2 % 2][k] * factor;
		}
	}
}
#endif

#endif
