#!/usr/bin/env bash
# Installs CNTK for comparison, from the Python package of that name.
#
#   install-cntk.sh FOLDER VERSION          VERSION: 2.7, 2.6 or 2.5.1
#
# Afterwards FOLDER has
#   libs      CNTK's modules and libraries
#   mpi       libraries that CNTK needs and newer systems have under other names
#   python    runs a script with this CNTK
#   ready     marks a complete installation
#
# Installs missing Debian packages if CNTK_READER_INSTALL_PACKAGES is 1 and the user is root.
#
# Status 3 means that this machine cannot have it; the last line of the output says why.
set -euo pipefail

cannot() { echo "$*"; exit 3; }

mkdir -p "$1"
folder=$(cd "$1" && pwd)
version=$2
[ ! -e "$folder/ready" ] || exit 0
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "CNTK exists for x86-64 Linux only"

# CNTK has packages for CPython 3.6 at most.
is_python36() { [ -n "$1" ] && "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 6))' 2>/dev/null; }
python=
for candidate in "${PYTHON36:-}" python3.6 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.6.*/bin/python; do
  if is_python36 "$candidate"; then python=$candidate; break; fi
done
[ -n "$python" ] || cannot "CPython 3.6 was not found: not as \$PYTHON36, not as python3.6, not in pyenv"

# Open MPI's runtime. CNTK asks for release 1.10, but release 4.x works for a single process. awk
# must read to the end of its input: if it exited early, ldconfig could die of SIGPIPE, and with
# pipefail this script, too.
find_library() { ldconfig -p | awk -v name="$1" '$1 == name && !found++ { print $NF }'; }
mpi=$(find_library libmpi.so.40)
if [ -z "$mpi" ] && [ "${CNTK_READER_INSTALL_PACKAGES:-}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q || true
  apt-get install -q -y --no-install-recommends libopenmpi3 || apt-get install -q -y --no-install-recommends libopenmpi3t64 || true
  mpi=$(find_library libmpi.so.40)
fi
[ -n "$mpi" ] || cannot "Open MPI's runtime was not found (on Debian and Ubuntu the package libopenmpi3)"
mkdir -p "$folder/mpi"
ln -sf "$mpi" "$folder/mpi/libmpi.so.12"
ln -sf "$(dirname "$mpi")/libmpi_cxx.so.40" "$folder/mpi/libmpi_cxx.so.1"

[ -x "$folder/venv/bin/pip" ] || "$python" -m venv "$folder/venv" || cannot "$python cannot make a virtual environment"
"$folder/venv/bin/pip" install --disable-pip-version-check -q "cntk==$version" ||
  cannot "pip cannot install cntk==$version"
ln -sfn venv/lib/python3.6/site-packages/cntk/libs "$folder/libs"

cat >"$folder/python" <<'END'
#!/usr/bin/env bash
# Runs Python with the CNTK of this folder.
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/mpi:$here/libs" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec "$here/venv/bin/python" -W ignore "$@"
END
chmod +x "$folder/python"
"$folder/python" -c 'import cntk, sys; sys.exit(cntk.__version__ != sys.argv[1])' "$version" ||
  cannot "the CNTK that pip installed cannot be loaded"
touch "$folder/ready"
