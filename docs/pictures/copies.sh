#!/bin/sh
# copies.sh [SPEECHSHARD]: draws copies.svg: one recording and its copy in the codec of mobile
# telephones (GSM), as `speechshard explain` compares them. SPEECHSHARD is the command
# (build/release/tools/speechshard).
#
# The recordings are prompts of Debian's packages asterisk-core-sounds-en-wav and -gsm, which are
# fetched and unpacked but not installed. Allison Smith recorded them; license CC BY-SA 3.0.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
speechshard=${1:-$here/../../build/release/tools/speechshard}
speechshard=$(command -v "$speechshard")
speechshard=$(cd "$(dirname "$speechshard")" && pwd)/${speechshard##*/}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir packages
for kind in wav gsm; do
    (cd packages && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "asterisk-core-sounds-en-$kind" </dev/null)
    dpkg-deb -x packages/asterisk-core-sounds-en-"$kind"_*.deb "$kind"
    mkdir -p "prompts/$kind"
    cp "$kind"/usr/share/asterisk/sounds/en_US_f_Allison/demo-congrats."$kind" "prompts/$kind"
done
"$speechshard" pack -q prompts -o prompts.spsh >/dev/null
"$speechshard" explain prompts.spsh wav/demo-congrats gsm/demo-congrats --plot copies.svg >/dev/null
cp copies.svg "$here/copies.svg"
