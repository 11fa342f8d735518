# shellcheck shell=sh
# wav.sh: for recipes' prepare.sh: the head of a WAV file of 16-bit samples in one channel.
#
#     . "$(dirname "$0")/../wav.sh"
#     { wav_head BYTES RATE_HZ; cat samples; } >file.wav

# little N BYTES: a number as printf escapes, least byte first.
little() {
    n=$1
    i=0
    while [ "$i" -lt "$2" ]; do
        printf '\\%03o' $((n % 256))
        n=$((n / 256))
        i=$((i + 1))
    done
}

# wav_head BYTES RATE_HZ: BYTES of samples follow.
wav_head() {
    # shellcheck disable=SC2059
    printf "RIFF$(little $(($1 + 36)) 4)WAVEfmt \020\000\000\000\001\000\001\000$(little "$2" 4)$(little $((2 * $2)) 4)\002\000\020\000data$(little "$1" 4)"
}
