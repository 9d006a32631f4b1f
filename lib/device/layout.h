/* layout.h - how a tensor of four dimensions lies in memory. */
#ifndef GT_DEVICE_LAYOUT_H
#define GT_DEVICE_LAYOUT_H

enum gt_layout {
	GT_PLAIN,        /* row-major in the order of the dimensions */
	GT_CHANNELS_LAST /* logical [N, C, H, W], in memory [N, H, W, C] */
};

#endif
