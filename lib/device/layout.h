/* layout.h - the order of the elements of a tensor in memory. */
#ifndef GT_DEVICE_LAYOUT_H
#define GT_DEVICE_LAYOUT_H

enum gt_layout {
	GT_PLAIN, /* row-major: the last dimension is contiguous */
	/* for four dimensions: the shape is [N, C, H, W], but elements are in the order of a
	 * row-major tensor [N, H, W, C] */
	GT_CHANNELS_LAST
};

#endif
