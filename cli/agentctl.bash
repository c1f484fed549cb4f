# Completion of agentctl for bash. It asks the bus itself for keys and marks: for at most 200, for at most a second, and
# without a word when no agentd serves it.

# Print the keys or marks that a command lists. One that would need quotes, or that agentctl escapes, is not offered.
_agentctl_words()
{
        timeout 1 "$@" 2>/dev/null | cut -f 1 | LC_ALL=C grep -x '[A-Za-z0-9_./,@%+:=][A-Za-z0-9_./,@%+:=-]*'
}

# Print the buses that have a name, and the directories here, which a / says to be none.
_agentctl_buses()
{
        local above=${XDG_STATE_HOME:-$HOME/.local/state}/statebus

        [ "$EUID" -eq 0 ] && above=/var/lib/statebus
        (cd "$above" 2>/dev/null && compgen -d -- "$1")
        compgen -d -P ./ -- "$1"
}

_agentctl()
{
        local commands
        commands='start stop get set del scan incr batch stat clients evict mark keep history diff restore dump'
        commands+=' load backup restore-from watch wait top check log checkpoint verify version help'
        local program=${1:-agentctl} command='' bus=() options='-b -o --base64 --help' operands=0 base64='' left=''
        local words word before line last breaks i

        COMPREPLY=()
        program=${program/#\~/$HOME}
        # bash takes words apart at : = and @, too, which keys contain. So the line is taken apart here, and what bash
        # believes to be words before the last one is left out of what is offered.
        if [ -n "${COMP_LINE-}" ]; then
                line=${COMP_LINE:0:COMP_POINT}
                line=${line//'\ '/$'\1'}
                read -ra words <<<"$line"
                [[ $line = *[[:blank:]] ]] && words+=('')
                words=("${words[@]//$'\1'/ }")
                breaks=${COMP_WORDBREAKS//[^:=@]/}
                word=${words[${#words[@]} - 1]}
                [ -n "$breaks" ] && [[ $word = *["$breaks"]* ]] && left=${word%"${word##*["$breaks"]}"}
        else
                words=("${COMP_WORDS[@]:0:COMP_CWORD + 1}")
        fi
        last=$((${#words[@]} - 1))
        word=${words[last]} before=${words[last - 1]}

        for ((i = 1; i < last; i++)); do
                case ${words[i]} in
                -b | --bus)
                        i=$((i + 1)) bus=(-b "${words[i]/#\~/$HOME}") ;;
                -o | --output | --if-rev | --if-value | --limit | --size | --hugepages | --clients | --durability | \
                        --max-snapshot-age | --flush-ms)
                        i=$((i + 1)) ;;
                --flush-bytes | --checkpoint-bytes | --checkpoint-every | --on-disk-error | --io | --recover-to)
                        i=$((i + 1)) ;;
                --history-memory | --pid | --at | --ttl | --after | --count | --timeout | --exec | --until | --from)
                        i=$((i + 1)) ;;
                --base64)
                        base64=1 ;;
                -*) ;;
                *)
                        if [ -z "$command" ]; then
                                command=${words[i]}
                        else
                                operands=$((operands + 1))
                        fi ;;
                esac
        done
        case $before in
        -b | --bus)
                if [[ $word = */* ]]; then
                        compopt -o dirnames 2>/dev/null || mapfile -t COMPREPLY < <(compgen -d -- "$word")
                else
                        mapfile -t COMPREPLY < <(_agentctl_buses "$word")
                fi
                return ;;
        -o | --output)
                mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$word")
                return ;;
        --hugepages)
                mapfile -t COMPREPLY < <(compgen -W 'auto require off' -- "$word")
                return ;;
        --durability)
                mapfile -t COMPREPLY < <(compgen -W 'batched volatile strict' -- "$word")
                return ;;
        --on-disk-error)
                mapfile -t COMPREPLY < <(compgen -W 'continue read-only stop' -- "$word")
                return ;;
        --io)
                mapfile -t COMPREPLY < <(compgen -W 'auto uring sync' -- "$word")
                return ;;
        --flush-ms | --flush-bytes | --checkpoint-bytes | --checkpoint-every | --recover-to)
                return ;;
        --at)
                mapfile -t COMPREPLY < <(compgen -W "now $(_agentctl_words "$program" "${bus[@]}" mark)" -- "$word")
                return ;;
        --if-rev | --if-value | --limit | --size | --clients | --max-snapshot-age | --history-memory | --pid | --ttl | --after)
                return ;;
        --count | --timeout | --exec | --until | --from)
                return ;;
        esac
        case $command in
        '') options="$commands $options" ;;
        start)
                options='--size --hugepages --clients --durability --flush-ms --flush-bytes --checkpoint-bytes'
                options+=' --checkpoint-every --on-disk-error --io --recover-to --max-snapshot-age --history-memory' ;;
        evict) options+=' --kill --pid' ;;
        mark) options+=' --drop' ;;
        keep | restore) options+=' --prefix' ;;
        history) options+=' --reverse --limit --full' ;;
        diff) options+=' --values --full' ;;
        get) options+=' --rev --at' ;;
        set) options+=' --if-absent --if-rev --if-value --durability' ;;
        del) options+=' --if-rev --if-value --prefix' ;;
        scan) options+=' --values --full --reverse --limit --at' ;;
        batch) options+=' --txn' ;;
        dump) options+=' --at' ;;
        load) options+=' --if-absent --txn' ;;
        watch) options+=' --prefix --after --count --timeout --full --exec' ;;
        wait) options+=' --until --timeout' ;;
        top) options+=' --once' ;;
        log) options+=' --entries --values --full --from --limit' ;;
        help) options=$commands ;;
        esac
        # A path is left to readline, which quotes it; compopt fails where no line is completed.
        if [[ $command = @(get|set|del|scan|incr|keep|history|restore|dump|watch|wait) && $word != -* && -z $base64 ]] &&
                [[ $operands -eq 0 || $command = watch ]]; then
                mapfile -t COMPREPLY < <(_agentctl_words "$program" "${bus[@]}" scan --limit 200 -- "$word")
        elif [[ $command$operands = @(mark0|diff0|diff1|restore1) && $word != -* ]]; then
                [ "$command" = mark ] || options=now
                mapfile -t COMPREPLY < <(compgen -W "$options $(_agentctl_words "$program" "${bus[@]}" mark)" -- "$word")
        elif [[ $command$operands = keep1 && $word != -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W 'last for all newest' -- "$word")
        elif [[ $command = @(load|backup|restore-from|verify) && $word != -* && $operands -eq 0 ]]; then
                compopt -o default 2>/dev/null || mapfile -t COMPREPLY < <(compgen -f -- "$word")
        else
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        fi
        COMPREPLY=("${COMPREPLY[@]#"$left"}")
}
complete -F _agentctl agentctl
