# bash completion for speechshard(1)
_speechshard()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="pack info ls cat verify repair export overlay"
    local common="--help --quiet --version"
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
    --layout) mapfile -t COMPREPLY < <(compgen -W "librispeech table table-raw table-rfc folder" -- "$current"); return ;;
    -t | --to) mapfile -t COMPREPLY < <(compgen -W "wav files webdataset" -- "$current"); return ;;
    -o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    esac
    case ${COMP_WORDS[1]} in
    pack) options="--output --layout --codec --shard-size --split --dedupe --domain --jobs --rate
        --order --trust-headers --follow-links --strict --max-rejects --memory --json" ;;
    info) options="--json" ;;
    verify) options="--decode --cached --jobs --json" ;;
    ls) options="--json --domain --split --limit --offset" ;;
    cat) options="--output --payload" ;;
    repair) options="--output --in-place --json" ;;
    export) options="--to --output --domain --split --shard-size" ;;
    overlay) options="--skip --transcript --json" ;;
    *) return ;;
    esac
    if [[ ${COMP_WORDS[1]} == overlay && $COMP_CWORD -eq 3 && $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "list add remove" -- "$current")
        return
    fi
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options $common" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _speechshard speechshard
