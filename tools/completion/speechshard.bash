# bash completion for speechshard(1)
_speechshard()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="pack info ls cat verify repair export"
    local common="--help --quiet"
    local options

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    case $previous in
    --codec) mapfile -t COMPREPLY < <(compgen -W "keep flac pcm" -- "$current"); return ;;
    --dedupe) mapfile -t COMPREPLY < <(compgen -W "none bytes pcm" -- "$current"); return ;;
    --order) mapfile -t COMPREPLY < <(compgen -W "hash source" -- "$current"); return ;;
    --layout) mapfile -t COMPREPLY < <(compgen -W "folder manifest librispeech" -- "$current"); return ;;
    --to) mapfile -t COMPREPLY < <(compgen -W "wav webdataset" -- "$current"); return ;;
    -o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    esac
    case ${COMP_WORDS[1]} in
    pack) options="--output --layout --codec --shard-size --split --dedupe --domain --jobs --rate
        --order --trust-headers --strict --json" ;;
    info | verify) options="--json" ;;
    ls) options="--json" ;;
    cat) options="--output" ;;
    repair) options="--json" ;;
    export) options="--to --output --json" ;;
    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options $common" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _speechshard speechshard
