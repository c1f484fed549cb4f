#include <statebus.h>
#include <stdio.h>

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_bytes greeting = {"greeting", 8}, hello = {"hello, bus", 10};
        struct sb_bytes language = {"language", 8}, english = {"English", 7};
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        sb_auto(sb_txn_endp) struct sb_txn *txn = NULL;
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        int r = sb_open(&options, &bus);

        r = r ? r : sb_txn_begin(bus, SB_SNAPSHOT, &txn);
        r = r ? r : sb_txn_set(txn, greeting, hello);
        r = r ? r : sb_txn_set(txn, language, english);
        r = r ? r : sb_txn_commit(txn, NULL);      /* both are there now, or neither */
        r = r ? r : sb_get(bus, greeting, &guard); /* held in place, not copied */
        if (r == 0)
                printf("%.*s\n", (int)guard.value.len, (const char *)guard.value.data);
        else
                fprintf(stderr, "hello: %s\n", sb_strerror(r));
        return r == 0 ? 0 : 1;
}
