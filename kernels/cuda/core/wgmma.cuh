/* wgmma.cuh - products of 64 x 64 tiles by a warpgroup, on the tensor cores of Hopper GPUs. */
#ifndef GT_KERNELS_CUDA_CORE_WGMMA_CUH
#define GT_KERNELS_CUDA_CORE_WGMMA_CUH

#include "kernels/cuda/core/mma.cuh"

/*
 * This file extends mma.cuh for compute capability 9.0: four warps, a warpgroup, compute a product
 * together, and the tensor cores read its factors from shared memory themselves. So a product costs
 * few instructions, and the threads can compute other things while it runs. Like mma.cuh, this file
 * has one version for nvcc, and one for the simulator that runs kernels on the CPU in tests.
 *
 * Types are the 16-bit ones; sums are float32. Threads 128 * g to 128 * g + 127 of a block are
 * warpgroup g. All of them call the functions below together.
 *
 * A factor in shared memory is a panel: rows of 64 elements, which take 128 bytes each. A panel
 * begins at a multiple of 1024 bytes. The 16-byte pieces of a row are exchanged, so that the same
 * piece of 8 neighbouring rows lies in 8 different groups of memory banks: piece p of row r is at
 * place p ^ (r % 8) of its row (PTX ISA, "Shared Memory Matrix Layout": 128-byte swizzle).
 *
 *   row 0: 0 1 2 3 4 5 6 7         row 2: 2 3 0 1 6 7 4 5
 *   row 1: 1 0 3 2 5 4 7 6         row 3: 3 2 1 0 7 6 5 4      ... row 8 is as row 0
 *
 *   gt_panel_base(p)            Round a pointer to shared memory up to a multiple of 1024 bytes.
 *   gt_panel_piece(p, r, c)     Return the address of piece c of row r, for copies.
 *   gt_panel_publish()          Each thread that wrote to panels calls this before the barrier
 *                               after which products read them: tensor cores read shared memory
 *                               by a path of their own, the asynchronous proxy.
 *   gt_panel_hold(held, p, r, k)
 *                               Read a factor of 16 x 16 elements into registers, from row r and
 *                               column k on; for one warp.
 *
 * A thread declares one variable of type gt_warpgroup:
 *
 *   begin(sum, ...)             Call this before products, with the sums and the factors in
 *                               registers that they use.
 *   multiply<B>(sum, a, b)      Queue sum[64, 64] = a[64, 64] * b[64, 64].
 *   multiply_add<B>(sum, a, b)  Queue sum += a * b.
 *   commit()                    Put the products that were queued since the last commit() into a
 *                               group.
 *   wait<N>(sum, ...)           Wait until the products of all groups are complete, except the N
 *                               newest groups. Name the sums that are now complete.
 *   compute(x, ...)             Compute these registers before the following calls. Without this,
 *                               the compiler may wait first, and compute afterwards.
 *
 * `a` is an array of factors in registers, gt_held (mma.cuh), of 16 columns each. `b` points to a
 * panel. Element (k, n) of b is in row k and column n, or, if B is GT_TILE_TRANSPOSED, in row n and
 * column k.
 *
 * Element e of sum[n] of a thread is at row gt_group_row(e) and column 16 * n + gt_tile_col(e). So
 * a warp holds 16 rows, in the layout of mma.cuh, and gt_hold_sums() makes a factor of sums (PTX
 * ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
 *
 * Until its group is complete, a product's sums, its factors in registers and its panels must not
 * change. The simulator computes products in wait(), and checks the factors in registers.
 *
 * Do not queue copies (async.cuh) between products and their wait(). With copies in that place, the
 * assemblers of CUDA 12.9 and 13.0 gave a factor's registers to another factor too early: in a loop
 * over tiles, the factors of the next product overwrote q. There is one exception:
 * attention_wgmma_grad.cu queues copies after the last product of a tile, before its wait(). In the
 * machine code of CUDA 13.0 its factors keep their registers, and test_kernels_attention checks its
 * results on a GPU. Run that test with each new version of CUDA.
 */
enum { GT_GROUP_THREADS = 128, GT_GROUP_ROWS = 64, GT_PANEL = 64, GT_PANEL_ROW_BYTES = 128 };

/* The tiles of 16 columns in the sums of a product, and the factors of 16 columns in a panel. */
enum { GT_GROUP_TILES = GT_PANEL / GT_TILE };
typedef float gt_group_sums[GT_GROUP_TILES][GT_TILE_LANE];

/* A file compiled for sm_90a has the instructions; the Makefile says so by GT_SM90A. */
#if !defined(__CUDACC__) || defined(GT_SM90A)
#define GT_HAS_WGMMA 1
#else
#define GT_HAS_WGMMA 0
#endif

static __device__ __forceinline__ int gt_group_row(int e)
{
	return (int)threadIdx.x % GT_GROUP_THREADS / 32 * GT_TILE + gt_tile_row(e);
}

template <class T> __device__ __forceinline__ T *gt_panel_piece(T *panel, int row, int piece)
{
	return panel + row * GT_PANEL + (piece ^ row % 8) * (16 / (int)sizeof(T));
}

#ifdef __CUDACC__
template <class T> __device__ __forceinline__ T *gt_panel_base(T *p)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(p);

	return (T *)((char *)p + ((1024 - at % 1024) % 1024));
}

__device__ __forceinline__ void gt_panel_publish()
{
	asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

template <class T>
__device__ __forceinline__ void gt_panel_hold(gt_held<T> &held, T *panel, int row, int k)
{
	int lane = (int)threadIdx.x % 32;

	gt_tile_fetch<false>(held.r, gt_panel_piece(panel, row + lane % 16, k / 8 + lane / 16));
}

/* Operands of an instruction: all sums of a thread. `how` is "+f", or "=f" if the instruction does
 * not read them. */
#define GT_EIGHT_SUMS(how, s)                                                                      \
	how(s[0]), how(s[1]), how(s[2]), how(s[3]), how(s[4]), how(s[5]), how(s[6]), how(s[7])
#define GT_ALL_SUMS(how, s)                                                                        \
	GT_EIGHT_SUMS(how, s[0]), GT_EIGHT_SUMS(how, s[1]), GT_EIGHT_SUMS(how, s[2]),              \
	    GT_EIGHT_SUMS(how, s[3])
#define GT_SUMS_TEXT                                                                               \
	"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                  \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

/*
 * wgmma.mma_async with `a` in registers. `add` is 0 or 1: whether the sums so far count. `plain` is
 * 1 if b is in the order GT_TILE_PLAIN.
 *
 * A factor in shared memory has a descriptor (PTX ISA, "Matrix Descriptor Format"), with numbers in
 * units of 16 bytes. Here its lower half varies: bits 0 to 13 have the address, and bits 16 to 29
 * the distance between panels, for products that take more than one. In the upper half, 64 is the
 * distance between groups of 8 rows of the panel, and bit 30 selects the 128-byte swizzle.
 */
#define GT_WGMMA_HIGH "0x40000040"
#define GT_WGMMA_HELD(how, type, sum, a, b, add, plain)                                            \
	asm volatile(                                                                              \
	    "{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %37, 0;\n"                             \
	    "mov.b64 b, {%36, " GT_WGMMA_HIGH "};\n"                                               \
	    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " GT_SUMS_TEXT           \
	    ", {%32, %33, %34, %35}, b, p, 1, 1, %38;\n}"                                          \
	    : GT_ALL_SUMS(how, sum)                                                                \
	    : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b), "n"(add), "n"(plain))

template <bool ADD, bool PLAIN>
__device__ __forceinline__ void gt_wgmma(
    gt_group_sums &sum, const gt_held<gt_bf16> &a, uint32_t b, gt_bf16)
{
	if (ADD)
		GT_WGMMA_HELD("+f", "bf16", sum, a, b, 1, PLAIN);
	else
		GT_WGMMA_HELD("=f", "bf16", sum, a, b, 0, PLAIN);
}

template <bool ADD, bool PLAIN>
__device__ __forceinline__ void gt_wgmma(
    gt_group_sums &sum, const gt_held<gt_f16> &a, uint32_t b, gt_f16)
{
	if (ADD)
		GT_WGMMA_HELD("+f", "f16", sum, a, b, 1, PLAIN);
	else
		GT_WGMMA_HELD("=f", "f16", sum, a, b, 0, PLAIN);
}

/* The lower half of a descriptor. Tensor cores exchange the pieces by the address, so a factor may
 * begin in the middle of a row: 16 columns further is 32 bytes further. */
__device__ __forceinline__ uint32_t gt_wgmma_factor(const void *at)
{
	return (uint32_t)__cvta_generic_to_shared(at) >> 4 | 1u << 16;
}

/* The offset of 16 elements further along k. */
template <gt_tile_order ORDER> struct gt_wgmma_step {
	enum { UNITS = (ORDER == GT_TILE_PLAIN ? GT_TILE * GT_PANEL_ROW_BYTES : GT_TILE * 2) >> 4 };
};

/* Empty instructions that read and write registers: the compiler may not move instructions that
 * use these registers across them. */
__device__ __forceinline__ void gt_wgmma_pin(gt_group_sums &sum)
{
	asm volatile("" : GT_ALL_SUMS("+f", sum) : : "memory");
}

template <int N> __device__ __forceinline__ void gt_wgmma_pin(gt_group_sums (&sums)[N])
{
	GT_UNROLL
	for (int n = 0; n < N; n++)
		gt_wgmma_pin(sums[n]);
}

template <int K, class T> __device__ __forceinline__ void gt_wgmma_pin(gt_held<T> (&a)[K])
{
	GT_UNROLL
	for (int k = 0; k < K; k++)
		asm volatile(""
		             : "+r"(a[k].r[0]), "+r"(a[k].r[1]), "+r"(a[k].r[2]), "+r"(a[k].r[3]));
}

struct gt_warpgroup {
	template <class... R> __device__ __forceinline__ void begin(R &...registers)
	{
		(gt_wgmma_pin(registers), ...);
		asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
	}

	template <gt_tile_order B, class A, class T>
	__device__ __forceinline__ void multiply(gt_group_sums &sum, const A &a, const T *b)
	{
		multiply_add<B, false>(sum, a, b);
	}

	template <gt_tile_order B, bool ADD = true, int K, class T>
	__device__ __forceinline__ void multiply_add(
	    gt_group_sums &sum, const gt_held<T> (&a)[K], const T *b)
	{
		uint32_t y = gt_wgmma_factor(b);

		gt_wgmma<ADD, B == GT_TILE_PLAIN>(sum, a[0], y, T());
		GT_UNROLL
		for (int k = 1; k < K; k++)
			gt_wgmma<true, B == GT_TILE_PLAIN>(
			    sum, a[k], y + k * gt_wgmma_step<B>::UNITS, T());
	}

	template <class... R> __device__ __forceinline__ void compute(R &...registers)
	{
		(gt_wgmma_pin(registers), ...);
	}

	__device__ __forceinline__ void commit()
	{
		asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
	}

	template <int N, class... R> __device__ __forceinline__ void wait(R &...registers)
	{
		asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
		(gt_wgmma_pin(registers), ...);
	}
};
#else
#include <assert.h>

template <class T> inline T *gt_panel_base(T *p)
{
	return (T *)(((uintptr_t)p + 1023) / 1024 * 1024);
}

inline void gt_panel_publish()
{
}

/* Return the element in row r and column c, counted from `from`, which may lie in the middle of a
 * panel. As tensor cores do, bits 4 to 6 of the address are XORed with bits 7 to 9. */
template <class T> inline float gt_panel_load(const T *from, int r, int c)
{
	uintptr_t at = (uintptr_t)from + (uintptr_t)(r * GT_PANEL_ROW_BYTES + c * (int)sizeof(T));

	return gt_load(*(const T *)(at ^ (at >> 7 & 7) << 4));
}

template <class T> inline void gt_panel_hold(gt_held<T> &held, T *panel, int row, int k)
{
	for (int h = 0; h < 2; h++)
		for (int i = 0; i < GT_TILE; i++)
			held.row[h][i] = gt_panel_load(panel, row + gt_tile_row(2 * h), k + i);
}

class gt_warpgroup
{
	enum { MOST = 64 };
	struct product {
		gt_group_sums *sum;
		const float (*a)[GT_TILE]; /* this thread's two rows of a, and a copy of them */
		float held[2][GT_TILE];
		const uint16_t *b;
		bool transposed, bfloat, add;
		int group;
	} queue[MOST];
	int first = 0, count = 0, group = 0;

	template <class T> static void compute(const product &p)
	{
		const T *b = (const T *)p.b;

		assert(!memcmp(p.a, p.held, sizeof(p.held)));
		for (int i = 0; i < GT_GROUP_TILES * GT_TILE_LANE; i++) {
			int e = i % GT_TILE_LANE;
			int n = i / GT_TILE_LANE * GT_TILE + gt_tile_col(e);
			float x = p.add ? (*p.sum)[i / GT_TILE_LANE][e] : 0;

			for (int k = 0; k < GT_TILE; k++)
				x += p.held[e / 2 % 2][k] * (p.transposed ? gt_panel_load(b, n, k)
				                                          : gt_panel_load(b, k, n));
			(*p.sum)[i / GT_TILE_LANE][e] = x;
		}
	}

	template <gt_tile_order B, class T>
	product &add_product(gt_group_sums &sum, const T *b, int k, bool add)
	{
		product &p = queue[(first + count++) % MOST];

		assert(count <= MOST);
		p.sum = &sum;
		p.transposed = B == GT_TILE_TRANSPOSED;
		p.b = (const uint16_t *)b + (p.transposed ? k * GT_TILE : k * GT_TILE * GT_PANEL);
		p.bfloat = std::is_same<T, gt_bf16>::value;
		p.add = add || k;
		p.group = group;
		return p;
	}

      public:
	template <class... R> void begin(R &...)
	{
	}

	template <gt_tile_order B, class A, class T>
	void multiply(gt_group_sums &sum, const A &a, const T *b)
	{
		multiply_add<B, false>(sum, a, b);
	}

	template <gt_tile_order B, bool ADD = true, int K, class T>
	void multiply_add(gt_group_sums &sum, const gt_held<T> (&a)[K], const T *b)
	{
		for (int k = 0; k < K; k++) {
			product &p = add_product<B>(sum, b, k, ADD);

			p.a = a[k].row;
			memcpy(p.held, a[k].row, sizeof(p.held));
		}
	}

	template <class... R> void compute(R &...)
	{
	}

	void commit()
	{
		group++;
	}

	template <int N, class... R> void wait(R &...)
	{
		for (; count && queue[first].group < group - N;
		     count--, first = (first + 1) % MOST) {
			if (queue[first].bfloat)
				compute<gt_bf16>(queue[first]);
			else
				compute<gt_f16>(queue[first]);
		}
	}
};
#endif

#endif
