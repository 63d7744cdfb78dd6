// The camera's orientation of a photograph, and turning it upright.
#pragma once

#include <string>

#include "data/image.h"

namespace ringgrad::data {

// The EXIF orientation of a JPEG, 1 to 8; 1 (upright) where it has none or it cannot be read.
// Format: CIPA DC-008, Exif 2.32, tag 0x0112.
int exif_orientation(const std::string& jpeg);

// The image as that orientation means it to be seen (as Pillow's ImageOps.exif_transpose).
Image upright(const Image& image, int orientation);

}  // namespace ringgrad::data
