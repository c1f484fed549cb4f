/* The command diff: two scans, one at each moment, are walked side by side. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/moments.h"

struct diff_side {
        struct sb_scan *scan;
        struct sb_guard guard; /* the key that the scan stands on; released: the scan has ended */
        bool gone;             /* the value of that key is not known any more */
};

static int diff_step(struct diff_side *side)
{
        int r;

        sb_guard_release(&side->guard);
        r = sb_scan_next(side->scan, &side->guard);
        side->gone = r == SB_E_LAPPED && side->guard.bus;
        return r == SB_E_NOT_FOUND || side->gone ? 0 : r;
}

static int diff_open_side(const struct cli *cli, struct sb_bus *bus, const char *text,
        struct sb_bytes prefix, struct diff_side *side)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        int r = cli_cut(cli, bus, text, &how.cut);

        if (r != 0)
                return r;
        r = sb_scan_open_at(bus, prefix, &how, &side->scan);
        if (r == -EINVAL)
                return cli_no_cut(cli, text);
        if (r == -ENAMETOOLONG)
                return cli_fail(cli, cli_word(cli->operands[2]), r);
        if (r == 0)
                r = diff_step(side);
        return r == 0 ? 0 : cli_fail(cli, text, r);
}

static int diff_order(const struct sb_guard *a, const struct sb_guard *b)
{
        size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
        int r;

        if (!a->bus || !b->bus)
                return (!a->bus) - (!b->bus); /* an ended scan is above all keys */
        r = memcmp(a->key.data, b->key.data, len);
        return r != 0 ? r : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static bool diff_same_value(const struct diff_side *a, const struct diff_side *b)
{
        return !a->gone && !b->gone && a->guard.value.len == b->guard.value.len &&
               memcmp(a->guard.value.data, b->guard.value.data, a->guard.value.len) == 0;
}

/* Print one key that changed. @old, @new: NULL when the key had no value there. */
static void diff_print_change(
        const struct cli *cli, const struct diff_side *old, const struct diff_side *new)
{
        const struct sb_guard *any = new ? &new->guard : &old->guard;
        bool gone = (old && old->gone) || (new &&new->gone);
        const char *what = gone ? "unknown" : !old ? "added" : !new ? "removed" : "changed";

        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("key", any->key, cli->base64);
                cli_json_text("change", what);
                if (old && !old->gone)
                        cli_json_bytes("old_value", old->guard.value, false);
                if (new && !new->gone)
                        cli_json_bytes("value", new->guard.value, false);
                if (new && !new->gone)
                        cli_json_number("rev", new->guard.rev);
                cli_json_end();
                return;
        }
        putchar(gone ? '?' : !old ? '+' : !new ? '-' : '~');
        putchar(' ');
        if (cli->base64)
                cli_print_base64(any->key);
        else
                cli_print_escaped(any->key);
        if (cli->values && old && !old->gone) {
                putchar('\t');
                cli_print_shown(cli, old->guard.value);
        }
        if (cli->values && new && !new->gone) {
                putchar('\t');
                cli_print_shown(cli, new->guard.value);
        }
        putchar('\n');
}

static int diff_compare(const struct cli *cli, struct diff_side *old, struct diff_side *new)
{
        int r = 0;

        while (r == 0 && (old->guard.bus || new->guard.bus) && !ferror(stdout)) {
                int which = diff_order(&old->guard, &new->guard);

                if (which != 0 || !diff_same_value(old, new))
                        diff_print_change(cli, which <= 0 ? old : NULL, which >= 0 ? new : NULL);
                if (which <= 0)
                        r = diff_step(old);
                if (r == 0 && which >= 0)
                        r = diff_step(new);
        }
        return r == 0 ? CLI_DONE : cli_fail(cli, "diff", r);
}

int cli_diff(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct diff_side old = {0}, new = {0};
        struct sb_bytes prefix = {0};
        int r = 0;

        if (cli->full && !cli->values)
                return cli_usage("--full is about values: it stands with --values");
        if (cli->operand_count > 2)
                r = cli_key(cli, cli->operands[2], true, &prefix);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = diff_open_side(cli, bus, cli->operands[0], prefix, &old);
        if (r == 0)
                r = diff_open_side(cli, bus, cli->operands[1], prefix, &new);
        if (r == 0)
                r = diff_compare(cli, &old, &new);
        sb_guard_release(&old.guard);
        sb_guard_release(&new.guard);
        sb_scan_close(old.scan);
        sb_scan_close(new.scan);
        return r;
}
