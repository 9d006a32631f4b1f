/* abi.cuh - compile-time checks of gtrain's declarations against the header of a library. */
#ifndef GT_KERNELS_CUDA_ABI_CUH
#define GT_KERNELS_CUDA_ABI_CUH

/* Fail to compile unless gtrain's constant `ours` equals the library's constant `theirs`. */
#define GT_SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

/* The size of a function's result in bytes; 0 for void. */
template <class T> struct gt_result_size {
	static const size_t value = sizeof(T);
};
template <> struct gt_result_size<void> {
	static const size_t value = 0;
};

/*
 * gt_same_call<T, U>::value is true if the function types T and U have the same number of arguments
 * and the same sizes of arguments and result. Equal sizes are enough: an argument that fits into a
 * register is passed like an integer or a pointer, and a larger argument is passed as a copy of its
 * bytes.
 */
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
