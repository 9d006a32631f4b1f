/* abi.cuh - gtrain's own declarations of a library's functions beside that library's header. */
#ifndef GT_KERNELS_CUDA_ABI_CUH
#define GT_KERNELS_CUDA_ABI_CUH

#define GT_SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

/* Check that two functions have as many arguments, of the same sizes. Arguments up to a register's
 * size are passed like integers and pointers, larger ones as copies of their bytes. */
template <class T> struct gt_result_size {
	static const size_t value = sizeof(T);
};
template <> struct gt_result_size<void> {
	static const size_t value = 0;
};
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
