/* layout.h - the order of the elements of a tensor in memory. */
#ifndef GT_DEVICE_LAYOUT_H
#define GT_DEVICE_LAYOUT_H

enum gt_layout {
	GT_PLAIN,        /* row-major */
	GT_CHANNELS_LAST /* shape [N, C, H, W], elements in the order of [N, H, W, C] */
};

#endif
