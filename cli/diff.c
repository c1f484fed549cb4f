/* The command diff: two scans, one at each moment, are walked side by side. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/moments.h"

struct side {
        struct sb_scan *scan;
        struct sb_guard guard; /* held, or the end */
        bool gone;             /* what it was is not known any more */
};

static int step(struct side *side)
{
        int r;

        sb_guard_release(&side->guard);
        r = sb_scan_next(side->scan, &side->guard);
        side->gone = r == SB_E_LAPPED && side->guard.bus != NULL;
        return r == SB_E_NOT_FOUND || side->gone ? 0 : r;
}

static int open_side(const struct cli *cli, struct sb_bus *bus, const char *text,
        struct sb_bytes prefix, struct side *side)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        int r = cli_cut_or_now(cli, bus, text, &how.cut);

        if (r != 0)
                return r;
        r = sb_scan_open_at(bus, prefix, &how, &side->scan);
        if (r == -EINVAL)
                return cli_no_cut(cli, text);
        if (r == -ENAMETOOLONG)
                return cli_fail(cli, cli_word(cli->operands[2]), r);
        if (r == 0)
                r = step(side);
        return r == 0 ? 0 : cli_fail(cli, text, r);
}

static int order(const struct sb_guard *a, const struct sb_guard *b)
{
        size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
        int r;

        if (a->bus == NULL || b->bus == NULL)
                return (a->bus == NULL) - (b->bus == NULL); /* the end is above all */
        r = memcmp(a->key.data, b->key.data, len);
        return r != 0 ? r : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static bool same(const struct side *a, const struct side *b)
{
        return !a->gone && !b->gone && a->guard.value.len == b->guard.value.len &&
               memcmp(a->guard.value.data, b->guard.value.data, a->guard.value.len) == 0;
}

/* @old, @new: NULL where there was no value. */
static void print_change(const struct cli *cli, const struct side *old, const struct side *new)
{
        const struct sb_guard *any = new != NULL ? &new->guard : &old->guard;
        bool gone = (old != NULL && old->gone) || (new != NULL &&new->gone);
        const char *what = gone          ? "unknown"
                           : old == NULL ? "added"
                           : new == NULL ? "removed"
                                         : "changed";

        if (cli->json) {
                json_begin();
                json_bytes("key", any->key, cli->base64);
                json_text("change", what);
                if (old != NULL && !old->gone)
                        json_bytes("old_value", old->guard.value, false);
                if (new != NULL && !new->gone)
                        json_bytes("value", new->guard.value, false);
                if (new != NULL && !new->gone)
                        json_number("rev", new->guard.rev);
                json_end();
                return;
        }
        putchar(gone ? '?' : old == NULL ? '+' : new == NULL ? '-' : '~');
        putchar(' ');
        if (cli->base64)
                print_base64(any->key);
        else
                print_escaped(any->key);
        if (cli->values && old != NULL && !old->gone) {
                putchar('\t');
                print_escaped(old->guard.value);
        }
        if (cli->values && new != NULL && !new->gone) {
                putchar('\t');
                print_escaped(new->guard.value);
        }
        putchar('\n');
}

static int compare(const struct cli *cli, struct side *old, struct side *new)
{
        int r = 0;

        while (r == 0 && (old->guard.bus != NULL || new->guard.bus != NULL) && !ferror(stdout)) {
                int which = order(&old->guard, &new->guard);

                if (which != 0 || !same(old, new))
                        print_change(cli, which <= 0 ? old : NULL, which >= 0 ? new : NULL);
                if (which <= 0)
                        r = step(old);
                if (r == 0 && which >= 0)
                        r = step(new);
        }
        return r == 0 ? CLI_DONE : cli_fail(cli, "diff", r);
}

int cli_diff(struct cli *cli)
{
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        struct side old = {0}, new = {0};
        struct sb_bytes prefix = {0};
        int r = 0;

        if (cli->operand_count > 2)
                r = cli_key(cli, cli->operands[2], true, &prefix);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = open_side(cli, bus, cli->operands[0], prefix, &old);
        if (r == 0)
                r = open_side(cli, bus, cli->operands[1], prefix, &new);
        if (r == 0)
                r = compare(cli, &old, &new);
        sb_guard_release(&old.guard);
        sb_guard_release(&new.guard);
        sb_scan_close(old.scan);
        sb_scan_close(new.scan);
        return r;
}
