/*
 * What `agentctl load` is given for a dump (cli/load.c, cli/dumped.h, cli/json.h), and what `dump`
 * writes of it (cli/dump.c), on a bus on paper.
 *
 * A checksum at the end would stop most inputs there, so the first byte says
 *
 *      bit 0   the last line, with the numbers and the checksum that are right, is put behind them
 *      bit 1   they come through a pipe and not as a file
 *      bit 2   all keys are one transaction
 *      bit 3   keys and rules that are there are left
 *      bit 4   they are dumped in base64
 *
 * What must hold, whatever the input: load takes all of it when each line is one of a dump and the
 * last one is its end, and the bus has exactly these keys and rules then. Else it says why in
 * printable lines, and has set nothing, or, from a pipe, a beginning of it. What it has loaded and
 * dump writes, load takes again, with the same outcome, byte for byte.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dumped.h"
#include "cli/json.h"
#include "shm/layout/reserved.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/paper-bus.h"

enum { SEALED = 1, PIPED = 2, IN_TXN = 4, IF_ABSENT = 8, BASE64 = 16 };
#define TEXT_MAX (64u << 10) /* what a pipe takes at once */

struct text {
        size_t len;
        char bytes[TEXT_MAX];
};

static struct text text, dumped, again;
static struct paper wanted, loaded, reloaded;

/* ---- what a dump says, line by line ---- */

/* What a line says, into wanted. Return: whether the bus takes it. */
static bool want_line(const struct cli_dumped_line *line, uint32_t how)
{
        struct sb_rule rule;

        if (line->value.len > PAPER_VALUE_LEN_MAX - (how & IN_TXN ? 8u : 0))
                return false;
        if (line->kind == CLI_DUMPED_KEY)
                paper_set(&wanted, line->key, line->value);
        if (line->kind != CLI_DUMPED_RULE)
                return true;
        if (line->key.len > PAPER_KEY_LEN_MAX - SB_KEEP_PREFIX)
                return false;
        if (!(how & IF_ABSENT) || !paper_kept(&wanted, line->key, line->prefix, &rule))
                paper_keep(&wanted, line->key, line->prefix, &line->rule);
        return true;
}

/* One line, in memory of its own that ends behind it. Return: whether it is one of a dump that the
 * bus takes. */
static bool read_line(struct cli_dumped *state, const char *at, size_t len, uint32_t how)
{
        struct cli_dumped_line line;
        char *own = malloc(len + 1);
        bool good;

        FUZZ_CHECK(own);
        memcpy(own, at, len);
        own[len] = '\0';
        good = !cli_dumped_take(state, own, len, &line);
        FUZZ_CHECK(good || state->wrong[0]);
        good = good && want_line(&line, how);
        free(own);
        return good;
}

/* Reads the lines up to the first that is not good, into wanted. Return: whether load has to take
 * all of the text. *ret_state is of the lines that were read. */
static bool read_lines(const struct text *from, uint32_t how, struct cli_dumped *ret_state)
{
        const char *at = from->bytes, *end = at + from->len, *line_end = at;
        bool good = true;

        paper_clear(&wanted);
        FUZZ_CHECK(!cli_dumped_begin(ret_state));
        for (; good && at < end; at = line_end + 1) {
                line_end = memchr(at, '\n', (size_t)(end - at));
                if (!line_end)
                        return false;
                good = read_line(ret_state, at, (size_t)(line_end - at), how);
        }
        return good && !cli_dumped_finish(ret_state);
}

/* Puts the end of a dump behind the lines, or of those that are good. */
static void seal(struct text *to)
{
        static struct cli_dumped state;
        char hash[17];

        if (to->len > 0 && to->bytes[to->len - 1] != '\n')
                to->bytes[to->len++] = '\n';
        (void)read_lines(to, 0, &state);
        cli_dumped_hash_words(state.hash, hash);
        to->len += (size_t)snprintf(to->bytes + to->len, sizeof(to->bytes) - to->len,
                "{\"keys\":%llu,\"rules\":%llu,\"xxh3\":\"%s\"}\n", (unsigned long long)state.keys,
                (unsigned long long)state.rules, hash);
        cli_dumped_end(&state);
}

/* Whether the checksum in the last line is that of the bytes before it. */
static bool has_its_sum(const struct text *of)
{
        static struct text line;
        const char *last = memrchr(of->bytes, '\n', of->len - 1);
        size_t before = last ? (size_t)(last + 1 - of->bytes) : 0;
        struct cli_dumped_hash *hash = cli_dumped_hash_new();
        struct cli_json_field field;
        struct cli_json json;
        bool found = false;
        char words[17];

        FUZZ_CHECK(hash);
        cli_dumped_hash_add(hash, of->bytes, before);
        cli_dumped_hash_words(hash, words);
        cli_dumped_hash_free(hash);
        line.len = of->len - 1 - before;
        memcpy(line.bytes, of->bytes + before, line.len);
        cli_json_read(&json, line.bytes, line.len);
        while (!cli_json_next(&json, &field))
                found = found || (field.is_text && field.text.len == 16 &&
                                         !memcmp(field.text.data, words, 16));
        return found;
}

/* ---- the commands ---- */

/* Give a command its streams, and take them away again. Return: its exit code; what it said is in
 * order. */
static int run(int (*command)(struct cli *cli), struct cli *cli, int output_fd)
{
        FILE *const own_output = stdout, *const own_errors = stderr;
        FILE *output;
        char *said = NULL;
        size_t said_len = 0;
        int code;

        stdout = output = fdopen(output_fd, "w");
        stderr = open_memstream(&said, &said_len);
        FUZZ_CHECK(stdout && stderr);
        code = command(cli);
        if (stdout != output) /* dump has put a stream of its own there */
                fclose(stdout);
        fclose(output);
        fclose(stderr);
        stdout = own_output;
        stderr = own_errors;
        FUZZ_CHECK((code == CLI_DONE) == (said_len == 0));
        for (size_t i = 0; i < said_len; i++)
                FUZZ_CHECK(said[i] == '\n' || (said[i] >= 0x20 && said[i] <= 0x7e));
        free(said);
        return code;
}

static int memory_file(const struct text *from)
{
        int fd = memfd_create("statebus-fuzz", MFD_CLOEXEC);

        FUZZ_CHECK(fd >= 0 && pwrite(fd, from->bytes, from->len, 0) == (ssize_t)from->len);
        return fd;
}

/* Have standard input be a pipe with the text in it, which has come to its end. */
static void pipe_in(const struct text *from)
{
        int ends[2];

        FUZZ_CHECK(!pipe2(ends, O_CLOEXEC));
        FUZZ_CHECK(write(ends[1], from->bytes, from->len) == (ssize_t)from->len);
        close(ends[1]);
        FUZZ_CHECK(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
        close(ends[0]);
}

static int load(const struct text *from, uint32_t how, struct paper *into)
{
        char name[32] = "-", *operands[] = {name};
        struct cli cli = {.attached = (struct sb_bus *)into,
                .txn_wanted = how & IN_TXN,
                .if_absent = how & IF_ABSENT,
                .operand_count = 1,
                .operands = operands};
        int fd = -1, code;

        paper_open = into;
        if (how & PIPED) {
                pipe_in(from);
        } else {
                fd = memory_file(from);
                snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        }
        code = run(cli_load, &cli, memfd_create("statebus-fuzz", MFD_CLOEXEC));
        if (fd >= 0)
                close(fd);
        return code;
}

static void dump(struct paper *from, uint32_t how, struct text *ret)
{
        struct cli cli = {.attached = (struct sb_bus *)from, .base64 = how & BASE64};
        int fd = memfd_create("statebus-fuzz", MFD_CLOEXEC), own = dup(fd);
        ssize_t len;

        paper_open = from;
        FUZZ_CHECK(own >= 0 && run(cli_dump, &cli, fd) == CLI_DONE);
        len = pread(own, ret->bytes, sizeof(ret->bytes), 0);
        FUZZ_CHECK(len >= 0 && len < (ssize_t)sizeof(ret->bytes));
        ret->len = (size_t)len;
        close(own);
}

/* ---- inputs ---- */

/* What was loaded is dumped, and loaded, and dumped. */
static void go_round(uint32_t how)
{
        dump(&loaded, how, &dumped);
        paper_clear(&reloaded);
        FUZZ_CHECK(load(&dumped, how ^ PIPED, &reloaded) == CLI_DONE);
        FUZZ_CHECK(paper_is_part(&loaded, &reloaded) && paper_is_part(&reloaded, &loaded));
        dump(&reloaded, how, &again);
        FUZZ_CHECK(again.len == dumped.len && !memcmp(again.bytes, dumped.bytes, again.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        uint32_t how = (uint32_t)fuzz_take(&input, 1);
        static struct cli_dumped state;
        bool whole;
        int code;

        text.len = input.left < TEXT_MAX / 4 ? input.left : TEXT_MAX / 4;
        if (text.len)
                memcpy(text.bytes, input.at, text.len);
        if (how & SEALED)
                seal(&text);
        whole = read_lines(&text, how, &state);
        cli_dumped_end(&state);
        paper_clear(&loaded);
        code = load(&text, how, &loaded);
        FUZZ_CHECK(code == (whole ? CLI_DONE : CLI_FAILED));
        FUZZ_CHECK(paper_is_part(&loaded, &wanted));
        if (!whole && (how & IN_TXN || !(how & PIPED)))
                FUZZ_CHECK(!loaded.key_count && !loaded.rule_count);
        if (!whole)
                return 0;
        FUZZ_CHECK(paper_is_part(&wanted, &loaded) && has_its_sum(&text));
        if (how & IF_ABSENT) {
                /* All of it is there already. */
                FUZZ_CHECK(load(&text, how, &loaded) == CLI_DONE);
                FUZZ_CHECK(paper_is_part(&loaded, &wanted) && paper_is_part(&wanted, &loaded));
        }
        go_round(how);
        return 0;
}
