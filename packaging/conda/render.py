"""Renders a recipe for several platforms, and prints the results as JSON, by platform.

    python render.py RECIPE PLATFORM ...
"""

import json
import sys
from pathlib import Path

from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

# What conda-forge pins for all packages: the names of compilers, and the oldest C library.
VARIANTS = {
    "c_compiler": ["gcc"],
    "rust_compiler": ["rust"],
    "c_stdlib": ["sysroot"],
    "c_stdlib_version": ["2.17"],
}

recipe = Stage0Recipe.from_file(Path(sys.argv[1]))
rendered = {}
for platform in sys.argv[2:]:
    config = RenderConfig(platform=PlatformConfig(target_platform=platform))
    [variant] = recipe.render(VariantConfig(VARIANTS), config)
    rendered[platform] = variant.recipe.to_dict()
print(json.dumps(rendered))
