#compdef agentctl
# Completion of agentctl for zsh: what agentctl.bash offers, which says how. The shell finds it as the function _agentctl.

# Print the keys or marks that a command lists. One that agentctl escapes is not offered.
_agentctl_words()
{
        timeout 1 "$@" 2>/dev/null | cut -f 1 | LC_ALL=C grep -x '[A-Za-z0-9_./,@%+:=][A-Za-z0-9_./,@%+:=-]*'
}

# Offer the buses that have a name, and directories; one of these without a / would be a name.
_agentctl_buses()
{
        local above=${XDG_STATE_HOME:-$HOME/.local/state}/statebus

        [[ $EUID -eq 0 ]] && above=/var/lib/statebus
        [[ $1 = */* ]] && _files -/ && return
        compadd -- $above/*(N/:t) ./*(N/)
}

_agentctl()
{
        local program=${${words[1]:-agentctl}/#\~/$HOME} command='' base64='' before=${words[CURRENT-1]} word=${(Q)words[CURRENT]}
        local -a verbs offers bus
        integer operands=0 i

        verbs=(start stop get set del scan incr batch stat clients evict mark keep history diff restore dump)
        verbs+=(load backup restore-from watch wait top check log checkpoint verify version help)
        offers=(-b -o --base64 --help)
        for ((i = 2; i < CURRENT; i++)); do
                case ${words[i]} in
                -b | --bus)
                        i=$((i + 1)) bus=(-b ${${(Q)words[i]}/#\~/$HOME}) ;;
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
                        if [[ -z $command ]]; then
                                command=${words[i]}
                        else
                                operands=$((operands + 1))
                        fi ;;
                esac
        done
        case $before in
        -b | --bus)
                _agentctl_buses $word
                return ;;
        -o | --output)
                compadd -- text json
                return ;;
        --hugepages)
                compadd -- auto require off
                return ;;
        --durability)
                compadd -- batched volatile strict
                return ;;
        --on-disk-error)
                compadd -- continue read-only stop
                return ;;
        --io)
                compadd -- auto uring sync
                return ;;
        --flush-ms | --flush-bytes | --checkpoint-bytes | --checkpoint-every | --recover-to)
                return 1 ;;
        --at)
                compadd -- now ${(f)"$(_agentctl_words $program $bus mark)"}
                return ;;
        --if-rev | --if-value | --limit | --size | --clients | --max-snapshot-age | --history-memory | --pid | --ttl | --after)
                return 1 ;;
        --count | --timeout | --exec | --until | --from)
                return 1 ;;
        esac
        case $command in
        '') offers=($verbs $offers) ;;
        start)
                offers=(--size --hugepages --clients --durability --flush-ms --flush-bytes --checkpoint-bytes)
                offers+=(--checkpoint-every --on-disk-error --io --recover-to --max-snapshot-age --history-memory) ;;
        evict) offers+=(--kill --pid) ;;
        mark) offers+=(--drop) ;;
        keep | restore) offers+=(--prefix) ;;
        history) offers+=(--reverse --limit --full) ;;
        diff) offers+=(--values --full) ;;
        get) offers+=(--rev --at) ;;
        set) offers+=(--if-absent --if-rev --if-value --durability) ;;
        del) offers+=(--if-rev --if-value --prefix) ;;
        scan) offers+=(--values --full --reverse --limit --at) ;;
        batch) offers+=(--txn) ;;
        dump) offers+=(--at) ;;
        load) offers+=(--if-absent --txn) ;;
        watch) offers+=(--prefix --after --count --timeout --full --exec) ;;
        wait) offers+=(--until --timeout) ;;
        top) offers+=(--once) ;;
        log) offers+=(--entries --values --full --from --limit) ;;
        help) offers=($verbs) ;;
        esac
        if [[ $command = (get|set|del|scan|incr|keep|history|restore|dump|watch|wait) && $word != -* && -z $base64 ]] &&
                [[ $operands -eq 0 || $command = watch ]]; then
                offers=(${(f)"$(_agentctl_words $program $bus scan --limit 200 -- $word)"})
        elif [[ $command$operands = (mark0|diff0|diff1|restore1) && $word != -* ]]; then
                [[ $command = mark ]] || offers=(now)
                offers+=(${(f)"$(_agentctl_words $program $bus mark)"})
        elif [[ $command$operands = keep1 && $word != -* ]]; then
                offers=(last for all newest)
        elif [[ $command = (load|backup|restore-from|verify) && $word != -* && $operands -eq 0 ]]; then
                _files
                return
        fi
        compadd -a -- offers
}

_agentctl "$@"
