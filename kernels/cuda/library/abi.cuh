/* abi.cuh - compile-time checks that gtrain's declarations agree with a library's own header. */
#ifndef GT_KERNELS_CUDA_LIBRARY_ABI_CUH
#define GT_KERNELS_CUDA_LIBRARY_ABI_CUH

/* Require that gtrain's constant equals the library's. */
#define GT_SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

/* The size of a result; 0 for void. */
template <class T> struct gt_result_size {
	static const size_t value = sizeof(T);
};
template <> struct gt_result_size<void> {
	static const size_t value = 0;
};

/* True if functions of type U can be called as type T: their arguments and results have the same
 * number and sizes. Types are not compared, since all are integers, pointers or structs. */
template <class T, class U> struct gt_same_call {
	static const bool value = false;
};
template <class R, class... A, class S, class... B> struct gt_same_call<R (*)(A...), S (*)(B...)> {
	static constexpr bool check()
	{
		if constexpr (sizeof...(A) == sizeof...(B))
			return gt_result_size<R>::value == gt_result_size<S>::value &&
			       ((sizeof(A) == sizeof(B)) && ...);
		return false;
	}
	static const bool value = check();
};

#endif
