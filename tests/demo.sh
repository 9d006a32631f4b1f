#!/bin/sh
# demo.sh - train a small character GPT on text that this machine has, and let it write.
set -eu

gtrain=${GTRAIN:-build/gtrain}
work=${DEMO_DIR:-build/demo}
text=$work/text.txt
licences=/usr/share/common-licenses

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

rm -rf "$work"
mkdir -p "$work"
# Every Debian and Ubuntu machine has the licences; elsewhere this repository's own pages must do.
for name in Apache-2.0 GFDL-1.3 GPL-2 GPL-3 LGPL-2.1 MPL-2.0; do
	if [ -r "$licences/$name" ]; then cat "$licences/$name"; fi
done | LC_ALL=C tr -cd '\11\12\40-\176' >"$text"
if [ ! -s "$text" ]; then
	cat README.md CONTRIBUTING.md man/*.1 lib/*/*.h | LC_ALL=C tr -cd '\11\12\40-\176' >"$text"
fi

say "1. Train a character GPT on $(wc -c <"$text") bytes of licences"
set -- --model gpt:layers=3,heads=4,width=128,block=64 --data "text:$text" --val-split 0.1 \
	--steps 1200 --batch 16 --lr 2e-3 --eval-every 400 --log-every 200 --out "$work/run"
echo "gtrain train $*"
"$gtrain" train "$@"

say "2. Let it write"
echo "gtrain generate --ckpt $work/run --prompt 'The licensee ' --tokens 300"
"$gtrain" generate --ckpt "$work/run" --prompt 'The licensee ' --tokens 300

say "3. What the run left in $work/run"
ls "$work/run" "$work/run/checkpoints"
