# fish completion for speechshard(1). Commands, options, and values come from --help.
function __speechshard_complete
    set -l words (commandline -opc)
    if not set -q words[2]
        $words[1] --help | sed -nE '/^Commands:/,/^Examples:/s/^  ((--)?[a-z]+) +/\1\t/p'
        return
    end
    set -l values
    switch $words[-1]
        case --layout
            set values ($words[1] pack --layout list | sed -E 's/ +/\t/')
        case '-*' # a line such as `      --codec keep|flac|pcm`; capital letters stand for any value
            set values ($words[1] $words[2] --help |
                sed -nE "s/^ +(-., )?$words[-1](, --[a-z-]+)? ([^ ]+[|][^ ]+).*/\3/p" | tr '|' '\n' | grep -v '[A-Z]')
    end
    if test $words[2] = overlay -a (count $words) -eq 3
        set values list add remove
    end
    if set -q values[1]
        printf '%s\n' $values
    else if string match -q -- '-*' (commandline -ct)
        $words[1] $words[2] --help | sed -nE 's/^  (-.,|   ) (--[a-z-]+)( [^ ]+)? +(.*)/\2\t\4/p'
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c speechshard -f -a '(__speechshard_complete)'
