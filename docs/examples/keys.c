/* Keys: open a bus, write a key, read it in place, create it once, take it away. */
#include <inttypes.h>
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "keys: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* The bus is the one that $STATEBUS names; an agentd is started if none serves it yet. */
static void open_bus(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        int r = sb_open(&options, &bus);

        if (r != 0) {
                fprintf(stderr, "keys: cannot open the bus: %s\n", sb_strerror(r));
                exit(1);
        }
        expect(sb_granted(bus) == SB_PEER, "this process may write");
}

static void close_bus(void)
{
        bus = sb_close(bus); /* NULL from now on; its guards are over */
}

/* A deadline and the cut of the write: what most writes do not need. */
static void write_within_a_second(void)
{
        uint64_t rev, cut;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut}; /* deadline_ns 0: a second */

        expect(sb_set(bus, b("model"), b("small"), &how, &rev) == 0, "there is memory");
        expect(rev > 0 && cut > 0, "a write has a revision, and a cut that contains it first");
        printf("set model\n");
}

/* The bytes lie in the segment, and stay as they are until the release. */
static void read_in_place(void)
{
        struct sb_guard guard = {0};
        int r = sb_get(bus, b("model"), &guard);

        expect(r == 0, "the key has a value");
        expect(sb_set(bus, b("model"), b("large"), NULL, NULL) == 0, "a guard hinders no write");
        printf("held: %.*s\n", (int)guard.value.len, (const char *)guard.value.data);
        sb_guard_release(&guard);
}

/* One call for several keys: their memory is fetched together. */
static void read_many(void)
{
        struct sb_bytes keys[] = {b("model"), b("nothing"), b("claim")};
        struct sb_guard guards[3] = {0};

        expect(sb_get_many(bus, keys, 3, guards) == 0, "a key without a value is no failure");
        for (int i = 0; i < 3; i++) {
                printf("%s: %s\n", (const char *)keys[i].data, guards[i].bus ? "held" : "no value");
                sb_guard_release(&guards[i]); /* does nothing where none is held */
        }
}

/* The same at one moment: no other process's write lies between one value and the next. */
static void read_many_at_once(void)
{
        struct sb_bytes keys[] = {b("model"), b("claim")};
        struct sb_guard guards[2] = {0};

        expect(sb_get_many_at(bus, keys, 2, 0, guards) == 0, "both as they are now");
        printf("at one moment: %s and %s\n", guards[0].bus ? "held" : "no value",
                guards[1].bus ? "held" : "no value");
        sb_guard_release(&guards[0]);
        sb_guard_release(&guards[1]);
}

/* Of several workers that claim a job, one gets 0. */
static void claim_once(void)
{
        uint64_t rev;
        int r = sb_cas(bus, b("claim"), 0, b("worker 7"), NULL, NULL);

        expect(r == 0, "the key had no value, and was created");
        r = sb_cas(bus, b("claim"), 0, b("worker 8"), NULL, &rev);
        expect(r == SB_E_CONFLICT && rev > 0, "the second worker hears the revision that is there");
        printf("claim: %s\n", sb_strerror(r));
}

/* Only if nothing changed since it was read. */
static void give_back(void)
{
        struct sb_guard guard = {0};
        int r = sb_get(bus, b("claim"), &guard);

        r = r ? r : sb_delete(bus, b("claim"), guard.rev, NULL, NULL);
        sb_guard_release(&guard);
        expect(r == 0, "the claim is given back");
        r = sb_delete(bus, b("claim"), SB_ANY_REV, NULL, NULL);
        expect(r == SB_E_NOT_FOUND, "a second delete finds no value");
        printf("gave the claim back\n");
}

/* A value names its writer; number and generation together name no other client. */
static void ask_after_the_writer(void)
{
        uint32_t number, generation;
        struct sb_guard guard = {0};

        expect(sb_client(bus, &number, &generation) == 0, "this client has a number");
        expect(sb_set(bus, b("model"), b("mine"), NULL, NULL) == 0, "it writes");
        expect(sb_get(bus, b("model"), &guard) == 0, "and reads");
        expect(guard.writer == number, "what it wrote itself");
        sb_guard_release(&guard);
        expect(sb_alive(bus, number, generation) == 0, "it is there");
        expect(sb_alive(bus, number, generation + 1) == SB_E_NOT_FOUND, "and no later one is");
        printf("the writer is there\n");
}

int main(void)
{
        open_bus();
        write_within_a_second();
        read_in_place();
        claim_once();
        read_many();
        read_many_at_once();
        give_back();
        ask_after_the_writer();
        close_bus();
        return 0;
}
