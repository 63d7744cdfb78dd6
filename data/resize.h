// Resizing and cropping.
#pragma once

#include "data/image.h"

namespace ringgrad::data {

// Bilinear with antialiasing: the triangle filter is widened by the factor of reduction. Pixel for
// pixel what Pillow's Image.resize(…, BILINEAR) gives, on which torchvision's transforms of PIL
// images rest: rows first, then columns, each rounded to bytes, coefficients in fixed point of 22
// bits.
Image resize_bilinear(const Image& image, int height, int width);

// The rectangle at (top, left); parts outside the image are zeros.
Image crop(const Image& image, int top, int left, int height, int width);

void flip_horizontal(Image& image);

}  // namespace ringgrad::data
