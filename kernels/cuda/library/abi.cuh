/* abi.cuh - compile-time checks that gtrain's declarations agree with a library's own header. */
#ifndef GT_KERNELS_CUDA_LIBRARY_ABI_CUH
#define GT_KERNELS_CUDA_LIBRARY_ABI_CUH

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
 * gt_same_call<T, U>::value is true if the function types T and U have the same number of
 * arguments, and if corresponding arguments, and the results, have the same sizes. A function of
 * type U can then be called through a pointer of type T. Only sizes are compared, not types: all
 * arguments of the checked functions are integers, enumerations, pointers or structs. If two of
 * these have the same size, they are passed in the same way.
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
