#!/usr/bin/env python3
"""Writes the image fixtures of image_test.cpp and resize_test.cpp: small files, and what Pillow makes of them.

usage: make_fixtures.py        needs numpy and Pillow; the tests themselves do not.
"""
import json
import os

import numpy as np
import PIL
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def pattern(height, width, channels):
    """A smooth picture with an edge, so that JPEG and resizing have something to do."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    values = 128 + 60 * np.sin(x / 3.0 + c) + 50 * np.cos(y / 4.0 - c) + 15 * (x > width // 2)
    return np.clip(values, 0, 255).astype(np.uint8)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    expected = {"pillow": PIL.__version__, "images": {}, "resized": []}

    def keep(name, image, **options):
        path = os.path.join(FOLDER, name)
        image.save(path, **options)
        rgb = Image.open(path).convert("RGB")
        expected["images"][name] = {"size": [rgb.height, rgb.width],
                                    "pixels": np.asarray(rgb).reshape(-1).tolist()}

    rgb = Image.fromarray(pattern(16, 24, 3))
    keep("rgb.png", rgb)
    keep("gray.png", rgb.convert("L"))
    keep("palette.png", rgb.quantize(16))
    rgba = rgb.convert("RGBA")
    rgba.putalpha(Image.fromarray(pattern(16, 24, 1)[:, :, 0]))
    keep("rgba.png", rgba)
    keep("gray_alpha.png", rgba.convert("LA"))
    keep("rgb.jpg", rgb, quality=95, subsampling=0)
    keep("gray.jpg", rgb.convert("L"), quality=95)
    keep("progressive.jpg", rgb, quality=95, subsampling=0, progressive=True)
    keep("cmyk.jpg", rgb.convert("CMYK"), quality=95)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    keep("rotated.jpg", rgb, quality=95, subsampling=0, exif=exif)

    # Pillow clips 16-bit gray; ours keeps the high byte.
    gray16 = Image.fromarray(np.array([[0, 256], [32768, 65535]], np.uint16))
    gray16.save(os.path.join(FOLDER, "gray16.png"))

    source = pattern(37, 53, 3)
    picture = Image.fromarray(source)
    for height, width in [(37, 53), (16, 16), (37, 20), (11, 53), (74, 106), (50, 31), (1, 1)]:
        resized = np.asarray(picture.resize((width, height), Image.BILINEAR))
        expected["resized"].append({"size": [height, width],
                                    "pixels": resized.reshape(-1).tolist()})
    Image.fromarray(source).save(os.path.join(FOLDER, "resize_source.png"))
    with open(os.path.join(FOLDER, "expected.json"), "w", encoding="utf-8") as out:
        json.dump(expected, out)
        out.write("\n")


if __name__ == "__main__":
    main()
