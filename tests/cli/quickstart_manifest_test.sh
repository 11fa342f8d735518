#!/bin/sh
# quickstart_manifest_test.sh: the table of prompts, on a tree with every oddity of the real
# packages: byte order mark, comment, name that differs in case, name given twice, colon in a text,
# recording without a line, line without a recording, link to a voice.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

doc=$work/usr/share/doc/asterisk-core-sounds-it
sounds=$work/usr/share/asterisk/sounds
mkdir -p "$doc" "$sounds/it_IT_m_Carlo/digits"
ln -s it_IT_m_Carlo "$sounds/it_IT_x_Link"
printf '\357\273\277; Comment: not a prompt\n\nhello: Ciao: "tutti"\t!  \r\ndigits/A: a\ndigits/0: zero\ndigits/0: dieci\ngone: via\n' |
    gzip -n >"$doc/core-sounds-it.txt.gz"
for name in hello silent digits/a digits/0; do
    : >"$sounds/it_IT_m_Carlo/$name.wav"
done

sh "$SPEECHSHARD_SOURCE_DIR/tools/quickstart-manifest.sh" "$work" | tr '\t' '|' >"$work/got"
cat >"$work/want" <<'END'
path|text|id|speaker|language|domain
usr/share/asterisk/sounds/it_IT_m_Carlo/digits/0.wav|zero|it/digits/0|Carlo|it|it
usr/share/asterisk/sounds/it_IT_m_Carlo/digits/a.wav|a|it/digits/a|Carlo|it|it
usr/share/asterisk/sounds/it_IT_m_Carlo/hello.wav|Ciao: "tutti" !|it/hello|Carlo|it|it
usr/share/asterisk/sounds/it_IT_m_Carlo/silent.wav||it/silent|Carlo|it|it
END
diff "$work/want" "$work/got"
