/* exif.h - private: the orientation in the Exif part of a JPEG. */
#ifndef GT_DATA_IMAGES_EXIF_H
#define GT_DATA_IMAGES_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Return the orientation in the Exif part of a JPEG, from 1 (upright) to 8; 1 if it is missing or
 * damaged. From 5 on, the upright picture has width and height exchanged. Source: Exif 2.32 (CIPA
 * DC-008), 4.5.4 and 4.6.4 "Orientation". */
int gt_exif_orientation(const unsigned char *jpeg, size_t size);

/* Turn or mirror a picture [height, width, channels] upright. `out` gets the same number of bytes:
 * [height, width, channels], or [width, height, channels] for an orientation of 5 or more. */
void gt_exif_turn(
    uint8_t *out, const uint8_t *pixels, int width, int height, int channels, int orientation);

#endif
