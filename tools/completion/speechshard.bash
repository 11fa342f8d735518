# bash completion for speechshard(1)
_speechshard()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="pack merge info ls cat verify repair export overlay plan bench featgen fingerprint dedupe apply revert audit explain train eval transcribe report env"
    local common="--help --quiet --verbose --version"
    local options
    local plan="--seed --max-seconds --max-padded-seconds --max-utterances --alpha --weight --unit
        --split --domain --language --min-duration --max-duration --max-per-speaker --duplicates
        --long --window --shuffle --world-size --virtual-world-size --drop-last --rate --output
        --cache"

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    case $previous in
    --codec) mapfile -t COMPREPLY < <(compgen -W "keep flac pcm" -- "$current"); return ;;
    --decoder) mapfile -t COMPREPLY < <(compgen -W "builtin ffmpeg" -- "$current"); return ;;
    --search) mapfile -t COMPREPLY < <(compgen -W "auto mild deep" -- "$current"); return ;;
    --keep) mapfile -t COMPREPLY < <(compgen -W "best first longest" -- "$current"); return ;;
    --contained) mapfile -t COMPREPLY < <(compgen -W "tag keep-long keep-part" -- "$current"); return ;;
    --dedupe) mapfile -t COMPREPLY < <(compgen -W "none bytes pcm" -- "$current"); return ;;
    --dtype) mapfile -t COMPREPLY < <(compgen -W "float16 float32" -- "$current"); return ;;
    --by) mapfile -t COMPREPLY < <(compgen -W "speaker dataset" -- "$current"); return ;;
    --order) mapfile -t COMPREPLY < <(compgen -W "hash source" -- "$current"); return ;;
    --print-launch) mapfile -t COMPREPLY < <(compgen -W "slurm mpirun kubernetes sge" -- "$current"); return ;;
    --layout) mapfile -t COMPREPLY < <(compgen -W "$(speechshard pack --layout list 2>/dev/null | cut -d' ' -f1)" -- "$current"); return ;;
    -t | --to) mapfile -t COMPREPLY < <(compgen -W "wav files webdataset" -- "$current"); return ;;
    --unit) mapfile -t COMPREPLY < <(compgen -W "seconds utterances tokens" -- "$current"); return ;;
    --duplicates) mapfile -t COMPREPLY < <(compgen -W "all once" -- "$current"); return ;;
    --long) mapfile -t COMPREPLY < <(compgen -W "error drop split" -- "$current"); return ;;
    --resume) mapfile -t COMPREPLY < <(compgen -W "no auto" -- "$current"); return ;;
    --vocab-kind) mapfile -t COMPREPLY < <(compgen -W "characters pieces" -- "$current"); return ;;
    --vocab-profile) mapfile -t COMPREPLY < <(compgen -W "lower upper nfc" -- "$current"); return ;;
    --shuffle) mapfile -t COMPREPLY < <(compgen -W "global none" -- "$current"); return ;;
    --split-from) mapfile -t COMPREPLY < <(compgen -W "name none" -- "$current"); return ;;
    --wds-key) mapfile -t COMPREPLY < <(compgen -W "first-dot last-dot" -- "$current"); return ;;
    --engine) mapfile -t COMPREPLY < <(compgen -W "auto io_uring pread" -- "$current"); return ;;
    --fail-on) mapfile -t COMPREPLY < <(compgen -W "recording segment performance sentence sentence_near document source speaker none" -- "$current"); return ;;
    --profile) mapfile -t COMPREPLY < <(compgen -W "default cjk marks" -- "$current"); return ;;
    --features) mapfile -t COMPREPLY < <(compgen -W "kaldi-fbank kaldi-mfcc whisper-logmel deepspeech spectrogram" -- "$current"); return ;;
    --augment) mapfile -t COMPREPLY < <(compgen -W "none specaugment-lb specaugment-ld speed-perturb deepspeech" -- "$current"); return ;;
    --undecodable) mapfile -t COMPREPLY < <(compgen -W "skip fail" -- "$current"); return ;;
    --decode)
        if [[ ${COMP_WORDS[1]} == bench ]]; then
            mapfile -t COMPREPLY < <(compgen -W "host device" -- "$current")
            return
        fi
        ;;
    --noise | --room) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --train | --test | --work) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --cache) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    -o | --output)
        if [[ ${COMP_WORDS[1]} == plan || ${COMP_WORDS[1]} == bench ]]; then
            mapfile -t COMPREPLY < <(compgen -W "int16 float32" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
        ;;
    esac
    case ${COMP_WORDS[1]} in
    pack) options="--output --layout --codec --decoder --shard-size --split --dedupe --domain --jobs --rate
        --order --trust-headers --wds-key --column --split-from --follow-links --strict --max-rejects --memory --part --plan-only
        --merge --lease --print-launch --json" ;;
    merge) options="--memory --lease --json" ;;
    info) options="--devices --json" ;;
    verify) options="--decode --cached --jobs --part --json" ;;
    ls) options="--all --json --domain --split --limit --offset" ;;
    cat) options="--output --payload --plot --features --augment --seed --epoch --noise --room --json" ;;
    repair) options="--output --in-place --json" ;;
    export) options="--to --output --domain --split --shard-size --json" ;;
    overlay) options="--skip --transcript --json" ;;
    plan) options="$plan --compare --epoch --whole --json --show-augment --augment --features --noise --room
        --epochs" ;;
    bench) options="$plan --seconds --threads --engine --cached --direct --cold --features --device --decode --undecodable --json" ;;
    featgen) options="--output --features --dtype --stats --by --skip-damaged --undecodable --jobs --part --estimate --json" ;;
    fingerprint) options="--jobs --part --estimate --json" ;;
    dedupe) options="--output --html --search --exact-only --keep --prefer --drop-from --contained
        --speed-grid --confirm --memory --work --jobs --part --estimate --json" ;;
    apply | revert) options="--json" ;;
    audit) options="--train --test --output --fail-on --profile --aliases --speed-grid --check --memory --work
        --jobs --part --estimate --json" ;;
    explain) options="--plot --listen --json" ;;
    train) options="--output --resume --strategy --make-vocab --vocab-kind --vocab-profile --vocab-symbols --estimate --simulate --record --replay --rendezvous --slow --link --freeze --kill --json" ;;
    eval) options="--beam --threads --alignments --transcripts --json" ;;
    transcribe) options="--domain --split --limit --beam --threads --json" ;;
    report) options="--output --json --cost --rate --processes-per-node" ;;
    env) options="--json" ;;
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
