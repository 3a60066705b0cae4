"""Builds cntk-reader for Conan 2, by cargo, from the checkout that this file is in.

    conan create packaging/conan --build=missing

Cargo must be on the path, in the version that Cargo.toml names or newer.
"""

import re
import shutil
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rm, rmdir
from conan.tools.scm import Git

required_conan_version = ">=2.4"

# Records of CNTK, which only tests need.
LEFT_OUT = "tests/"


class CntkReader(ConanFile):
    name = "cntk-reader"
    description = "Reads CNTK's training data: composes, randomizes, packs minibatches, checkpoints"
    license = "MIT"
    homepage = url = "https://github.com/cntk-reader/cntk-reader"
    topics = ("cntk", "machine-learning", "dataset", "minibatch")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]
    # Both kinds of libraries come from the same sources.
    no_copy_source = True

    def set_version(self):
        manifest = Path(self.recipe_folder, "../../Cargo.toml").read_text()
        self.version = re.search(r'^version = "(.*)"$', manifest, re.MULTILINE).group(1)

    def export(self):
        root = Path(self.recipe_folder, "../..").resolve()
        copy(self, "LICENSE", root, self.export_folder)

    def export_sources(self):
        root = Path(self.recipe_folder, "../..").resolve()
        for name in Git(self, folder=str(root)).included_files():
            if name.startswith(LEFT_OUT) or not (root / name).is_file():
                continue
            target = Path(self.export_sources_folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Follows links: each crate links to the licence.
            shutil.copy2(root / name, target)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("CMakeLists.txt builds the library on Linux only")

    def configure(self):
        # Its interface is C; the C++ part is headers.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        # Crates compiled by an earlier build, for those who build often.
        kept = self.conf.get("user.cntk_reader:cargo_target_dir")
        if kept:
            toolchain.cache_variables["CNTK_READER_CARGO_TARGET_DIR"] = kept
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan writes both for the package itself.
        rmdir(self, Path(self.package_folder, "lib/cmake"))
        rmdir(self, Path(self.package_folder, "lib/pkgconfig"))
        unwanted = "*.a" if self.options.shared else "*.so*"
        rm(self, unwanted, Path(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["cntk_reader"]
        self.cpp_info.set_property("cmake_file_name", "cntk_reader")
        self.cpp_info.set_property("cmake_target_name", "cntk_reader::cntk_reader")
        self.cpp_info.set_property("pkg_config_name", "cntk_reader")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "m"]
