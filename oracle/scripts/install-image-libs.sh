#!/usr/bin/env bash
# Adds the libraries that CNTK's image module needs and newer systems lack to a CNTK installed by
# install-cntk.sh.
#
#   install-image-libs.sh FOLDER          FOLDER: the one given to install-cntk.sh
#
# Built from source: libjpeg.so.8 (libjpeg-turbo with that interface, and with SIMD if nasm is
# available, as in distributions: the pixels are the same, but benchmarks must not measure a slow
# build). The system's, under an older name: libtiff.so.5. A wrapper for the system's libpng 1.6
# with the interface of 1.2: libpng12 (libpng12.c). A stub that does nothing: libjasper. JPEG, PNG,
# BMP and TIFF images work afterwards, JPEG 2000 does not.
#
# Installs missing Debian packages if CNTK_READER_INSTALL_PACKAGES is 1 and the user is root.
#
# Status 3 means that this machine cannot have them; the last line of the output says why.
set -euo pipefail

cannot() { echo "$*"; exit 3; }

here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
to=$folder/mpi
export DEBIAN_FRONTEND=noninteractive
installs() { [ "${CNTK_READER_INSTALL_PACKAGES:-}" = 1 ] && [ "$(id -u)" = 0 ]; }
command -v nasm >/dev/null || ! installs || apt-get install -q -y --no-install-recommends nasm || true
simd=OFF
! command -v nasm >/dev/null || simd=ON
# The file records what was built: outdated libraries are built again, and so is a libjpeg.so.8
# without SIMD once nasm is available.
built="libpng12, SIMD $simd"
! grep -qxE "$built|libpng12, SIMD ON" "$to/ready-for-images" 2>/dev/null || exit 0
command -v apt-get >/dev/null || cannot "sources and libraries come from Debian's or Ubuntu's archive, which this system does not use"
for tool in gcc cmake make nm tar; do
  command -v $tool >/dev/null || cannot "$tool was not found"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# awk must read to the end of its input: if it exited early, ldconfig could die of SIGPIPE, and with
# pipefail this script, too.
tiff() { ldconfig -p | awk '$1 ~ /^libtiff\.so\.[56]$/ && !found++ { print $NF }'; }
if [ -z "$(tiff)" ] && installs; then
  apt-get install -q -y --no-install-recommends libtiff6 || apt-get install -q -y --no-install-recommends libtiff5 || true
fi
[ -n "$(tiff)" ] || cannot "libtiff was not found (on Debian and Ubuntu the package libtiff6)"
ln -sf "$(tiff)" "$to/libtiff.so.5"

png() { ldconfig -p | awk '$1 == "libpng16.so.16" && !found++ { print $NF }'; }
if [ -z "$(png)" ] && installs; then
  apt-get install -q -y --no-install-recommends libpng16-16 || true
fi
[ -n "$(png)" ] || cannot "libpng16 was not found (on Debian and Ubuntu the package libpng16-16)"

# A separate source list, because the system's may lack source packages.
. /etc/os-release
# Either file may be missing, so awk's status is ignored.
mirror=$(awk '$1 == "URIs:" && !found++ { print $2 }' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
[ -n "$mirror" ] || mirror=$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /:\/\// && !found++) print $i }' /etc/apt/sources.list 2>/dev/null || true)
[ -n "$mirror" ] || cannot "no package archive is configured"
mkdir -p "$scratch/lists/partial" "$scratch/source"
echo "deb-src $mirror $VERSION_CODENAME main" >"$scratch/sources.list"
apt=(apt-get -q -o "Dir::Etc::SourceList=$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$scratch/lists")
(cd "$scratch" && "${apt[@]}" update && "${apt[@]}" source --download-only libjpeg-turbo) || cannot "the source of libjpeg-turbo cannot be fetched"
tar -xf "$scratch"/libjpeg-turbo_*.orig.tar.* -C "$scratch/source" --strip-components=1
cmake -S "$scratch/source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release -DWITH_JPEG8=ON -DENABLE_STATIC=OFF -DWITH_TURBOJPEG=OFF -DWITH_SIMD=$simd
make -C "$scratch/build" -j2 jpeg
# Under another name first: a program may have loaded the old one.
cp -L "$scratch/build/libjpeg.so.8" "$to/libjpeg.so.8.new"
mv "$to/libjpeg.so.8.new" "$to/libjpeg.so.8"

# Builds libNAME.so.N with symbols of one version from a source.
library() {
  local file=$1 version=$2 source=$3
  echo "$version { global: *; };" >"$scratch/version.map"
  gcc -w -O1 -fno-builtin -shared -fPIC "$source" -ldl -Wl,-soname,"$file" -Wl,--version-script="$scratch/version.map" -o "$to/$file.new"
  mv "$to/$file.new" "$to/$file"
}
library libpng12.so.0 PNG12_0 "$here/libpng12.c"

# All functions that OpenCV refers to. OpenCV calls jas_init when it is loaded, so Jasper's
# functions must return.
{
  echo 'int unused;'
  nm -D --undefined-only "$folder/libs/libopencv_imgcodecs.so.3.1" |
    awk '{ sub(/@.*/, "", $2) } index($2, "jas_") == 1 { print "long " $2 "(void) { return 0; }" }'
} >"$scratch/jasper.c"
library libjasper.so.1 JASPER_1 "$scratch/jasper.c"

"$folder/python" -c 'import ctypes, glob, sys; ctypes.CDLL(glob.glob(sys.argv[1] + "/libs/Cntk.Deserializers.Image-*.so")[0])' "$folder" ||
  cannot "the image module cannot be loaded all the same"
echo "$built" >"$to/ready-for-images"
