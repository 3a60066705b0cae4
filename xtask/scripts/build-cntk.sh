#!/usr/bin/env bash
# Builds an old CNTK (CPU only, with OpenBLAS) to compare with: its Math library, its reader modules, and for betas the BrainScript program.
#
#   build-cntk.sh DIR VERSION GIT OLD|NEW
#
# GIT is a git directory with CNTK's history, VERSION a tag of it without its "v" (and the ".0" of betas), OLD or NEW the std::string to build with: releases up to
# 2.3.1 have the old one. DIR/libs gets the libraries, DIR/bin the program, if the strings are new. Exits with 3 if this machine cannot build it. The sources are compiled as they
# are, but for lines that newer compilers and newer Protocol Buffers refuse.
set -euo pipefail

dir=$1 version=$2 git=$3 strings=$4
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

packages="g++ make libopenblas-dev liblapacke-dev libopenmpi-dev libboost-dev libprotobuf-dev protobuf-compiler"
if ! dpkg -s $packages > /dev/null 2>&1; then
  if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $packages; } >&2; then
    echo "the packages that CNTK is built with could not be installed: $packages"
    exit 3
  fi
fi
tag=v$version
case $version in *beta*) tag+=.0 ;; esac
git -C "$git" rev-parse --quiet --verify "$tag^{commit}" > /dev/null || {
  echo "$git has no tag $tag"
  exit 3
}

source=$dir/src/Source
if ! [ -d "$source" ]; then
  rm -rf "$dir/src.new"
  mkdir -p "$dir/src.new"
  # File by file: a copy of the history may lack the largest ones, which are not compiled.
  git -C "$git" ls-tree -r --name-only "$tag" -- Source | grep -E '\.(h|hpp|cpp|cc|proto|inl|bs)$' | while IFS= read -r file; do
    mkdir -p "$dir/src.new/$(dirname "$file")"
    git -C "$git" show "$tag:$file" > "$dir/src.new/$file" 2> /dev/null || rm "$dir/src.new/$file"
  done
  mv "$dir/src.new" "$dir/src"
  sed -i 's/valQ\.Quantize</valQ.template Quantize</' "$source/Math/ColumnQuantizer.h"
  sed -i 's/SetTotalBytesLimit(INT_MAX, *[^)]*)/SetTotalBytesLimit(INT_MAX)/' "$source/CNTKv2LibraryDll/Serialization.cpp"
  for folder in proto tensorboard; do
    (cd "$source/CNTKv2LibraryDll/$folder" && protoc --cpp_out=. ./*.proto)
  done
fi

mkdir -p "$dir/generated"
for name in BUILDTYPE BUILDTARGET MATHLIB CUDA_PATH CUB_PATH CUDNN_PATH BUILDBRANCH BUILDSHA1 BUILDER BUILDMACHINE BUILDPATH MPI_NAME MPI_VERSION; do
  echo "#define _${name}_ \"\""
done > "$dir/generated/buildinfo.h"
echo '#define _GIT_EXIST' >> "$dir/generated/buildinfo.h"

target=modules
# The program takes Protocol Buffers of the system, which has new strings.
case $version-$strings in *beta*-NEW) target="modules program" ;; esac
nice make --silent --jobs="$(nproc)" --file="$here/cntk.mk" DIR="$dir" VERSION="$version" STRINGS="$strings" $target >&2
touch "$dir/ready"
