#!/usr/bin/env bash
# Gives ClusterFuzzLite what it expects in the folder $OUT: for each target a program, a dictionary
# and the corpus under version control.
set -euo pipefail
# Set for programs with sanitizers, which cargo's own tools cannot be: the command sets it for the
# targets.
unset RUSTFLAGS
cargo xtask fuzz --sanitizer "$SANITIZER" --list
program=${CARGO_TARGET_DIR:-target}/fuzz/build$SANITIZER/$(rustc -vV | sed -n 's/^host: //p')/release/any
"$program" | while IFS= read -r line; do
  name=$(cut -f 1 <<< "$line") dictionary=$(cut -f 2 <<< "$line")
  # The program runs the target that it is named after.
  cp "$program" "$OUT/$name"
  if [ -n "$dictionary" ]; then cp "fuzz/dictionaries/$dictionary.dict" "$OUT/$name.dict"; fi
  (cd "fuzz/corpus/$name" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
done
