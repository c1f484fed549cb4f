# Completion of agentctl for bash. It asks the bus itself for keys, for at most a hundred of them.

_agentctl()
{
        local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
        local commands='start stop get set del scan incr batch stat clients evict mark keep history diff restore check version help'
        local command='' bus=() options='-b -o --base64 --help' keys=0 i

        COMPREPLY=()
        for ((i = 1; i < COMP_CWORD; i++)); do
                case ${COMP_WORDS[i]} in
                -b | --bus)
                        bus=(-b "${COMP_WORDS[++i]}") ;;
                -o | --output | --if-rev | --limit | --size | --hugepages | --clients | --durability | --max-snapshot-age)
                        ((i++)) ;;
                --history-memory | --pid | --at)
                        ((i++)) ;;
                -*) ;;
                *)
                        if [ -z "$command" ]; then
                                command=${COMP_WORDS[i]}
                        else
                                ((keys++))
                        fi ;;
                esac
        done
        case $before in
        -b | --bus)
                mapfile -t COMPREPLY < <(compgen -d -- "$word")
                return ;;
        -o | --output)
                mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$word")
                return ;;
        --hugepages)
                mapfile -t COMPREPLY < <(compgen -W 'auto require off' -- "$word")
                return ;;
        --durability)
                mapfile -t COMPREPLY < <(compgen -W 'volatile' -- "$word")
                return ;;
        --if-rev | --limit | --size | --clients | --max-snapshot-age | --history-memory | --pid | --at)
                return ;;
        esac
        case $command in
        '') options="$commands $options" ;;
        start) options='--size --hugepages --durability --clients --max-snapshot-age --history-memory' ;;
        evict) options+=' --kill --pid' ;;
        mark) options+=' --drop' ;;
        keep | restore) options+=' --prefix' ;;
        history) options+=' --reverse --limit' ;;
        diff) options+=' --values' ;;
        get) options+=' --rev --at' ;;
        set) options+=' --if-absent --if-rev' ;;
        del) options+=' --if-rev --prefix' ;;
        batch) options+=' --txn' ;;
        scan) options+=' --values --full --reverse --limit --at' ;;
        help) options=$commands ;;
        esac
        if [[ $command = @(get|set|del|scan|incr|keep|history|restore) && $keys -eq 0 && $word != -* ]]; then
                # A key that would need quotes, or that scan escaped, is not offered.
                mapfile -t COMPREPLY < <(timeout 1 agentctl "${bus[@]}" scan --limit 100 -- "$word" 2>/dev/null |
                        LC_ALL=C grep -x '[A-Za-z0-9_./,@%+-][A-Za-z0-9_./,@%+-]*')
        else
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        fi
}
complete -F _agentctl agentctl
