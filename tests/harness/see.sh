# see.sh: for scripts that name their programs in $programs, and run this with `.`. It sets $status.
# `see PROGRAM TEST FAULT`: that rule is broken ($broken_by, in a build that has faults), and that test of the program must see it.
# That the test says nothing while nothing is broken, the quick run sees in build/; the long one (SB_TEST_LONG) asks here, too.
# The test itself is a quick one either way.
status=0
broken_by=${broken_by:-SB_FAULT}
long=${SB_TEST_LONG:-}
unset SB_TEST_LONG

see() {
    program=
    for each in $programs; do
        [ "${each##*/}" != "$1" ] || program=$each
    done
    set -- "$program" "$2" "$3"
    if [ "$long" ] && ! env "$broken_by=NONE" timeout -k 5 60 "$1" "$2" >/dev/null 2>&1; then
        echo "FAIL $2: nothing is broken, and it fails"
        status=1
        return
    fi
    said=$(env "$broken_by=$3" timeout -k 5 60 "$1" "$2" 2>&1)
    case $said in
    *"FAIL $2"*)
        echo "ok $3: $2"
        ;;
    *)
        echo "FAIL $3: $2 does not see it"
        status=1
        ;;
    esac
}
