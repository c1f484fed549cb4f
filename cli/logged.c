/*
 * What the log of a durable bus is; see logged.h.
 *
 * The reader finds how the log ends. Behind that all entries are counted once, as recovery would
 * read them, because a frame that is whole by its checksum may still hold what no agentd takes.
 */
#define _GNU_SOURCE
#include "cli/logged.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dumped.h"
#include "cli/moments.h"
#include "cli/partial.h"
#include "cli/progress.h"
#include "libclient/core/admin.h"
#include "ring/attach/place.h"
#include "ring/wal/wal-behind.h"
#include "ring/wal/wal-bytes.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-whole.h"

#define READINGS_MAX 50
#define BATCHES_MIN  64

/* ---- counting ---- */

struct logged_count {
        struct cli_logged *logged;
        struct cli_progress progress;
        struct sb_wal_whole whole;
        uint32_t last_len; /* of the key before; 0: there is none */
        unsigned char last[SB_WAL_ENTRY_KEY_MAX];
};

static int logged_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct logged_count *count = context;
        struct cli_logged *logged = count->logged;
        size_t room = logged->batch_room ? 2 * logged->batch_room : BATCHES_MIN;
        struct cli_logged_batch *batches;

        (void)ret_skip;
        sb_wal_whole_begin(&count->whole, batch);
        if (logged->batch_count == logged->batch_room) {
                batches = mi_realloc(logged->batches, room * sizeof(*batches));
                if (!batches)
                        return -ENOMEM;
                logged->batches = batches;
                logged->batch_room = room;
        }
        logged->batches[logged->batch_count] = (struct cli_logged_batch){
                .sequence = batch->sequence, .cut = batch->cut, .realtime_ns = batch->realtime_ns};
        count->last_len = 0;
        return 0;
}

static int logged_entry(void *context, const struct sb_wal_entry *entry)
{
        struct logged_count *count = context;
        struct cli_logged *logged = count->logged;
        struct cli_logged_batch *batch = &logged->batches[logged->batch_count];
        uint64_t bytes = sb_wal_entry_size(entry->key_len, entry->value_len);
        int r = sb_wal_whole_take(&count->whole, entry);

        if (count->whole.said)
                batch->since = count->whole.said;
        batch->entries++;
        batch->bytes += bytes;
        logged->sum.bytes += bytes;
        if (r)
                return r;
        if (entry->key_len && (entry->key_len != count->last_len ||
                                      memcmp(entry->key, count->last, entry->key_len) != 0)) {
                batch->keys++;
                logged->sum.keys++;
                count->last_len = entry->key_len;
                memcpy(count->last, entry->key, entry->key_len);
        }
        cli_progress_step(&count->progress, logged->sum.keys, logged->sum.bytes);
        return 0;
}

static int logged_end(void *context, const struct sb_wal_batch *batch)
{
        struct logged_count *count = context;
        struct cli_logged *logged = count->logged;
        const struct cli_logged_batch *last = &logged->batches[logged->batch_count++];

        (void)batch;
        logged->sum.sequence = last->sequence;
        logged->sum.cut = last->cut;
        logged->sum.realtime_ns = last->realtime_ns;
        logged->sum.entries += last->entries;
        logged->sum.since = count->whole.since;
        return 0;
}

/* A damaged place that the reader does not see. */
static void logged_spoil(struct cli_logged *logged, uint64_t file, const char *what)
{
        logged->end.ending = SB_WAL_DAMAGED;
        logged->end.file = file;
        logged->end.offset = 0;
        logged->end.what = what;
}

/* What is whole by itself is damaged where it does not have the whole bus. The first batch of a bus
 * has it; a later one where the log has begun anew. While agentd begins it anew, there may be no
 * batch for a moment. */
static void logged_ask_whole(struct cli_logged *logged, const struct sb_wal_whole *whole)
{
        const bool in_front = logged->first_file > 1;
        const uint64_t file = in_front ? logged->first_file - 1 : 1;

        if (!logged->batch_count && !logged->supervisor &&
                !sb_wal_whole_begins(whole, &logged->end))
                logged_spoil(logged, file,
                        in_front ? "the file is missing, and no batch is behind it"
                                 : "batches were before the first file, and none is in it");
        else if (logged->batch_count && !logged->sum.since)
                logged_spoil(logged, file,
                        in_front ? "the file is missing, and what is behind it does not have the "
                                   "whole bus"
                                 : "no batch has the whole bus, and the first one of each log has");
}

/* Count what is in the batches. Return: 0, -ESTALE, -errno. */
static int logged_count(struct cli_logged *logged)
{
        static const struct sb_wal_visitor visitor = {
                .begin = logged_begin, .entry = logged_entry, .end = logged_end};
        struct logged_count count = {.logged = logged};
        int r;

        logged->batch_count = 0;
        logged->sum = (struct cli_logged_batch){0};
        cli_progress_begin(&count.progress, "log", 0);
        r = sb_wal_reader_visit(logged->reader, &visitor, &count);
        cli_progress_end(&count.progress);
        if (r == -EBADMSG)
                logged_spoil(logged, 0,
                        "entries that no agentd writes, in a frame with the right checksum");
        else if (r == -EPROTONOSUPPORT)
                logged_spoil(logged, 0,
                        "an entry of a kind that this version does not know; a later one may have "
                        "written it");
        else if (r)
                return r;
        if (logged->end.ending <= SB_WAL_TORN)
                logged_ask_whole(logged, &count.whole);
        return 0;
}

/* ---- reading ---- */

/* The log is one file, which was closed. Return: 0; -EXDEV: there are more, or it is still written;
 * -ENODATA: it never was; -errno. */
static int logged_take_single(struct cli_logged *logged)
{
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        struct sb_wal_file file = {.number = 1};
        struct stat status;
        uint32_t version;
        int r = sb_wal_file_read_header(logged->directory_fd, &file, &header, &version);

        if (r || fstat(logged->directory_fd, &status) < 0)
                return r ? r : -errno;
        if (cli_partial_is(logged->directory_fd))
                return -ENODATA;
        logged->files = 1;
        logged->first_file = file.number;
        logged->file_bytes = (uint64_t)status.st_size;
        return header == SB_WAL_HEADER_GOOD && !file.last_sequence ? -EXDEV : 0;
}

/* Find how many files there are. Return: 0, -errno. */
static int logged_list(struct cli_logged *logged)
{
        char name[SB_WAL_FILE_NAME_MAX];
        struct sb_wal_names names;
        struct stat status;
        int r;

        if (logged->single)
                return logged_take_single(logged);
        r = sb_wal_file_list(logged->directory_fd, &names);
        if (r)
                return r;
        logged->files = names.number_count;
        logged->first_file = names.number_count ? names.numbers[0] : 0;
        logged->file_bytes = 0;
        for (size_t i = 0; i < names.number_count; i++) {
                sb_wal_file_name(names.numbers[i], name);
                if (!fstatat(logged->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW))
                        logged->file_bytes += (uint64_t)status.st_size;
        }
        sb_wal_file_list_end(&names);
        return 0;
}

/* Find the first file that is not as the others are, for a message: of another version, byte order
 * or bus. */
static void logged_find_other(struct cli_logged *logged)
{
        unsigned char id[sizeof(logged->end.id)];
        struct sb_wal_names names;
        bool other = false, first = true;

        if (sb_wal_file_list(logged->directory_fd, &names))
                return;
        for (size_t i = 0; i < names.number_count && !other; i++) {
                enum sb_wal_header header = SB_WAL_HEADER_BAD;
                struct sb_wal_file file = {0};
                uint32_t version;
                int fd;

                if (sb_wal_file_open(logged->directory_fd, names.numbers[i], &fd))
                        continue;
                (void)sb_wal_file_read_header(fd, &file, &header, &version);
                close(fd);
                other = header == SB_WAL_HEADER_OTHER_VERSION ||
                        header == SB_WAL_HEADER_OTHER_ENDIAN;
                if (header == SB_WAL_HEADER_GOOD && first) {
                        memcpy(id, file.id, sizeof(id));
                        first = false;
                }
                other |= header == SB_WAL_HEADER_GOOD && memcmp(id, file.id, sizeof(id)) != 0;
                if (other)
                        logged->end.file = names.numbers[i];
        }
        sb_wal_file_list_end(&names);
}

/* Find where the frames of a file end, by their headers. Return: 0, -errno; *ret_head has what
 * stands there. */
static int logged_find_end(int fd, const struct sb_wal_file *file,
        unsigned char ret_head[static SB_WAL_FRAME_HEAD], uint64_t *ret_offset)
{
        struct sb_wal_frame frame;
        uint64_t offset = SB_WAL_BLOCK;

        for (; offset < file->size; offset += sb_wal_frame_space(frame.payload_len)) {
                ssize_t len = pread(fd, ret_head, SB_WAL_FRAME_HEAD, (off_t)offset);

                if (len != (ssize_t)SB_WAL_FRAME_HEAD)
                        return len < 0 ? -errno : -ESTALE;
                if (!sb_wal_frame_decode(ret_head, file->salt, offset, &frame))
                        break;
        }
        *ret_offset = offset;
        return 0;
}

/* Look behind a clean end for the header of the next batch. What lacks the salt or the mark of a
 * frame the reader takes for something that an earlier use left in the file. No earlier use leaves
 * the number of the batch that comes next and the cut before it, though: so that batch was here,
 * and was changed. Return: 0, -errno. */
static int logged_look_behind(struct cli_logged *logged)
{
        const uint64_t number = logged->first_file + logged->files - 1;
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        unsigned char head[SB_WAL_FRAME_HEAD];
        struct sb_wal_file file = {0};
        uint64_t offset = 0;
        uint32_t version;
        int fd, r;

        r = sb_wal_file_open(logged->directory_fd, number, &fd);
        if (r)
                return r;
        r = sb_wal_file_read_header(fd, &file, &header, &version);
        if (!r && header != SB_WAL_HEADER_GOOD)
                r = -ESTALE;
        r = r ? r : logged_find_end(fd, &file, head, &offset);
        close(fd);
        if (r || offset >= file.size)
                return r;
        if (sb_wal_bytes_get64(head + 8) == file.salt ||
                (sb_wal_bytes_get64(head + 32) == logged->end.sequence + 1 &&
                        sb_wal_bytes_get64(head + 48) == logged->end.cut)) {
                logged->end.ending = SB_WAL_TORN;
                logged->end.file = number;
                logged->end.offset = offset;
                logged->end.dropped = SB_WAL_BLOCK;
        }
        return 0;
}

/* What agentd goes on from, in spite of damage. Return: 0; -ENODATA: nothing; -errno. */
static int logged_open_behind(const struct cli_logged *logged, struct sb_wal_reader **ret)
{
        struct sb_wal_reader *reader;
        int r;

        if (logged->end.ending != SB_WAL_DAMAGED || logged->single)
                return -ENODATA;
        r = sb_wal_reader_open(logged->directory_fd, NULL, &reader);
        if (r)
                return r;
        r = sb_wal_reader_end(reader)->ending == SB_WAL_DAMAGED ? sb_wal_behind(reader) : -ENODATA;
        if (r)
                sb_wal_reader_close(reader);
        else
                *ret = reader;
        return r;
}

static int logged_look_behind_damage(struct cli_logged *logged)
{
        struct sb_wal_reader *reader;
        int r = logged_open_behind(logged, &reader);

        logged->is_whole_behind = false;
        logged->cut_behind = 0;
        if (!r && sb_wal_reader_end(reader)->ending == SB_WAL_DAMAGED)
                logged->cut_behind = sb_wal_reader_end(reader)->cut;
        else if (!r)
                logged->is_whole_behind = true;
        if (!r)
                sb_wal_reader_close(reader);
        return r == -ENODATA ? 0 : r;
}

/* Read the log once. Return: 0; -ESTALE: it was changed meanwhile; -errno. */
static int logged_read(struct cli_logged *logged)
{
        int r = logged_list(logged);

        logged->reader = sb_wal_reader_close(logged->reader);
        cli_progress_wait("log: looking for its end ...");
        if (!r && logged->single)
                r = sb_wal_reader_open_file(logged->directory_fd, &logged->reader);
        else if (!r)
                r = sb_wal_reader_open(logged->directory_fd, NULL, &logged->reader);
        cli_progress_wait(NULL);
        if (r)
                return r == -ENOENT ? -ESTALE : r;
        logged->end = *sb_wal_reader_end(logged->reader);
        if (logged->end.ending > SB_WAL_DAMAGED && logged->end.ending != SB_WAL_NO_FILE &&
                !logged->single)
                logged_find_other(logged);
        if (logged->end.ending == SB_WAL_CLEAN && logged->files != 0 && !logged->single &&
                !logged->end.passed)
                r = logged_look_behind(logged);
        r = r ? r : logged_count(logged);
        r = r ? r : logged_look_behind_damage(logged);
        return r == -ENOENT ? -ESTALE : r;
}

/* Whether a second reading has found the damage of the first one. */
static bool logged_is_as_before(const struct sb_wal_end *end, const struct sb_wal_end *before)
{
        return before->passed == end->passed && before->passed_file == end->passed_file &&
               before->passed_offset == end->passed_offset &&
               (end->ending != SB_WAL_DAMAGED ||
                       (before->ending == SB_WAL_DAMAGED && before->file == end->file &&
                               before->offset == end->offset && before->what == end->what));
}

/* Read the log until what was found is no passing state. */
static int logged_settle(struct cli_logged *logged)
{
        struct sb_wal_end before = {0};
        int r = -ESTALE;

        for (unsigned reading = 0; reading < READINGS_MAX; reading++) {
                r = logged_read(logged);
                if (r && r != -ESTALE)
                        return r;
                if (!r && logged->end.ending != SB_WAL_DAMAGED && !logged->end.passed)
                        return 0;
                if (!r && logged_is_as_before(&logged->end, &before))
                        return 0;
                before = r ? (struct sb_wal_end){0} : logged->end;
        }
        return -ESTALE;
}

int cli_logged_open(const char *name, struct cli_logged *ret)
{
        struct cli_logged *logged = ret;
        struct stat status = {0};
        int r = 0;

        *logged = (struct cli_logged){.directory_fd = -1};
        /* A path that agentd takes for a directory, and no name of a bus, from wherever it runs. */
        if (!realpath(name, logged->directory))
                return -errno;
        /* A FIFO would let the command wait for ever. */
        logged->directory_fd = open(logged->directory, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (logged->directory_fd < 0)
                return -errno;
        if (fstat(logged->directory_fd, &status) < 0)
                r = -errno;
        else if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
                r = -EINVAL;
        logged->single = !S_ISDIR(status.st_mode);
        /* Asked before the log is read: what agentd wrote until it ended is read, too, then. */
        if (r || logged->single || sb_admin_supervisor(logged->directory, &logged->supervisor) != 0)
                logged->supervisor = 0;
        else if (!logged->supervisor)
                logged->supervisor = -1;
        r = r ? r : logged_settle(logged);
        if (r)
                cli_logged_close(logged);
        return r;
}

void cli_logged_close(struct cli_logged *logged)
{
        sb_wal_reader_close(logged->reader);
        mi_free(logged->batches);
        if (logged->directory_fd >= 0)
                close(logged->directory_fd);
        *logged = (struct cli_logged){.directory_fd = -1};
}

/* ---- in words ---- */

static const char *const logged_states[] = {
        [SB_WAL_CLEAN] = "whole",
        [SB_WAL_TORN] = "torn",
        [SB_WAL_DAMAGED] = "damaged",
        [SB_WAL_OTHER_VERSION] = "other version",
        [SB_WAL_OTHER_ENDIAN] = "other byte order",
        [SB_WAL_OTHER_BUS] = "other bus",
        [SB_WAL_NO_FILE] = "no file",
};

bool cli_logged_costs_nothing(const struct cli_logged *logged)
{
        return logged->end.passed && logged->end.ending <= SB_WAL_TORN;
}

const char *cli_logged_state(const struct cli_logged *logged)
{
        return cli_logged_costs_nothing(logged) ? "damaged" : logged_states[logged->end.ending];
}

int cli_logged_go_behind(struct cli_logged *logged)
{
        struct sb_wal_reader *reader;
        int r = logged_open_behind(logged, &reader);

        if (r)
                return r;
        sb_wal_reader_close(logged->reader);
        logged->reader = reader;
        logged->end = *sb_wal_reader_end(reader);
        logged->is_whole_behind = false;
        return logged_count(logged);
}

bool cli_logged_is_good(const struct cli_logged *logged)
{
        return logged->end.ending <= SB_WAL_TORN;
}

const char *cli_logged_passed_words(const struct cli_logged *logged)
{
        static char words[PATH_MAX + 256];
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(logged->end.passed_file, name);
        snprintf(words, sizeof(words),
                "%s, at byte %" PRIu64 ": %" PRIu64
                " batch%s with pieces of a copy of the bus alone. That costs nothing: all "
                "changes are there, and the copy before it. Look for what did it",
                logged->single ? logged->directory : name, logged->end.passed_offset,
                logged->end.passed, logged->end.passed == 1 ? "" : "es");
        return words;
}

const char *cli_logged_words(const struct cli_logged *logged)
{
        static char words[PATH_MAX + 256];
        const struct sb_wal_end *end = &logged->end;
        char numbered[SB_WAL_FILE_NAME_MAX], first[SB_WAL_FILE_NAME_MAX], bytes[32];
        const char *name = logged->single ? logged->directory : numbered;

        sb_wal_file_name(end->file, numbered);
        sb_wal_file_name(logged->first_file, first);
        words[0] = '\0';
        switch (end->ending) {
        case SB_WAL_CLEAN:
                break;
        case SB_WAL_TORN:
                snprintf(words, sizeof(words),
                        "%s in %s from byte %" PRIu64 " on are of a batch that is not whole",
                        cli_bytes_words(end->dropped, bytes), name, end->offset);
                break;
        case SB_WAL_DAMAGED:
                if (end->file || end->renamed_from)
                        snprintf(words, sizeof(words), "%s, at byte %" PRIu64 ": %s", name,
                                end->offset, end->what);
                else
                        snprintf(words, sizeof(words), "batch %" PRIu64 ": %s",
                                logged->batch_count ? logged->sum.sequence + 1
                                                    : end->first_sequence,
                                end->what);
                break;
        case SB_WAL_OTHER_VERSION:
                snprintf(words, sizeof(words),
                        "%s has format version %u, and this agentctl reads version %u", name,
                        end->version, SB_WAL_VERSION);
                break;
        case SB_WAL_OTHER_ENDIAN:
                snprintf(words, sizeof(words),
                        "%s was written on a machine of the other byte order", name);
                break;
        case SB_WAL_OTHER_BUS:
                snprintf(words, sizeof(words), "%s is of another bus than %s", name, first);
                break;
        case SB_WAL_NO_FILE:
                snprintf(words, sizeof(words), "%s is %s, and no file of a log", name, end->what);
                break;
        }
        return words;
}

/* Whether the file is a dump, by its first bytes. */
static bool logged_is_dump(const char *path)
{
        char bytes[sizeof(CLI_DUMPED_BEGINS) - 1];
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t len;

        if (fd < 0)
                return false;
        len = pread(fd, bytes, sizeof(bytes), 0);
        close(fd);
        return len == (ssize_t)sizeof(bytes) &&
               memcmp(bytes, CLI_DUMPED_BEGINS, sizeof(bytes)) == 0;
}

/* What to do about a damaged log. */
static void logged_advise_damaged(const struct cli_logged *logged, char *ret, size_t size)
{
        const char *directory = logged->directory;
        char from[SB_WAL_FILE_NAME_MAX], to[SB_WAL_FILE_NAME_MAX], word[SB_PLACE_WORD_MAX];

        sb_wal_file_name(logged->end.renamed_from, from);
        sb_wal_file_name(logged->end.renamed_to, to);
        if (logged->is_whole_behind)
                snprintf(ret, size,
                        "no power failure leaves this: a disk or a program has changed it. It "
                        "costs nothing, for the whole bus is in the log again behind it, and "
                        "agentd takes it from there. Copy %s first if you want to look into it: "
                        "the "
                        "damaged file goes when two copies of the bus are in later files",
                        directory);
        else if (logged->supervisor)
                snprintf(ret, size,
                        "the disk is damaged, but %s still has the bus in its memory: "
                        "save it now, by `agentctl -b %s dump >FILE`, and before agentd ends",
                        cli_agentd(logged->supervisor), sb_place_word(directory, word));
        else if (logged->end.renamed_from)
                snprintf(ret, size,
                        "by its header %s is %s, and no file has that name: rename it back, and "
                        "nothing is lost",
                        to, from);
        else if ((logged->sum.since || logged->cut_behind) && !logged->single)
                snprintf(ret, size,
                        "no power failure leaves this: a disk or a program has changed it, and "
                        "agentd refuses it. Copy %s first. To go on from what is whole, and lose "
                        "what came later: `agentd -b %s --durability batched --recover-to %" PRIu64
                        "`",
                        directory, sb_place_word(directory, word),
                        logged->cut_behind ? logged->cut_behind : logged->sum.cut);
        else if (logged->single && logged->sum.since)
                snprintf(ret, size,
                        "this backup was changed since it was written: take another copy of it, or "
                        "another backup. To go on from what is whole, put it as "
                        "wal-0000000000000001 into an empty directory DIR: `agentd -b DIR "
                        "--durability batched --recover-to %" PRIu64 "`",
                        logged->sum.cut);
        else if (logged->single && logged_is_dump(directory))
                snprintf(ret, size,
                        "this is no backup but a dump: `agentctl load` takes it, into a bus that "
                        "is served");
        else if (logged->single && !logged->end.offset && !logged->batch_count)
                snprintf(ret, size,
                        "this is no backup, or one of which the beginning was changed or cut off: "
                        "take another copy of it, or another backup");
        else if (logged->single)
                snprintf(ret, size,
                        "this backup was changed since it was written, and what is whole of it is "
                        "no whole bus: take another copy of it, or another backup");
        else
                snprintf(ret, size,
                        "no power failure leaves this: a disk or a program has changed it. What is "
                        "whole does not have the whole bus, so there is no cut to go on from: "
                        "bring "
                        "back a copy of %s, or move its files wal-* away and begin with an empty "
                        "bus",
                        directory);
}

const char *cli_logged_advice(const struct cli_logged *logged)
{
        static char advice[2 * PATH_MAX + 512];
        const size_t size = sizeof(advice);

        advice[0] = '\0';
        switch (logged->end.ending) {
        case SB_WAL_CLEAN:
                break;
        case SB_WAL_TORN:
                if (logged->supervisor)
                        snprintf(advice, size,
                                "%s serves this bus: it is writing that batch now, or "
                                "could not",
                                cli_agentd(logged->supervisor));
                else
                        snprintf(advice, size,
                                "a power failure leaves this, and then the batch was acknowledged "
                                "to no process. Nothing is to be done: agentd drops it when it "
                                "starts");
                break;
        case SB_WAL_DAMAGED:
                logged_advise_damaged(logged, advice, size);
                break;
        case SB_WAL_OTHER_VERSION:
                snprintf(advice, size,
                        "nothing of it was read: take the agentctl, and the agentd, of the version "
                        "that wrote it");
                break;
        case SB_WAL_OTHER_ENDIAN:
                snprintf(advice, size,
                        "nothing of it was read: bring the bus back there, and over to here by "
                        "`agentctl dump` and `agentctl load`");
                break;
        case SB_WAL_OTHER_BUS:
                snprintf(advice, size,
                        "nothing of it was read: keep the files wal-* of one bus in %s, and move "
                        "those of the other away",
                        logged->directory);
                break;
        case SB_WAL_NO_FILE:
                snprintf(advice, size,
                        "nothing of the log was read: a person or a program has put it into %s. "
                        "Move it away, or bring the file back that had this name, and ask again",
                        logged->directory);
                break;
        }
        return advice;
}

int cli_logged_fail(const char *name, int result)
{
        if (result == -EXDEV)
                cli_say("%s: this is one file of a log, which is all files wal-* of a bus: name "
                        "their directory",
                        cli_word(name));
        else if (result == -ENODATA)
                cli_say("%s: this is no backup, but what an interrupted command left: it can be "
                        "removed",
                        cli_word(name));
        else if (result == -EINVAL)
                cli_say("%s: this is neither a directory nor a file", cli_word(name));
        else if (result == -ESTALE)
                cli_say("the log in %s changes faster than it can be read: agentd begins it anew "
                        "all the time. Try again when less is written, or give agentd a larger "
                        "--checkpoint-bytes",
                        name);
        else if (result == -EACCES)
                cli_say("the log in %s cannot be read: %s. The bus's owner and root may read it",
                        name, strerror(-result));
        else
                cli_say("the log in %s cannot be read: %s", name, strerror(-result));
        return cli_code_of(-result);
}

int cli_logged_none(const struct cli_logged *logged)
{
        if (logged->supervisor)
                cli_say("there is no log in %s: it has no file wal-* with a number. %s "
                        "serves this bus: it is volatile, or its first batch is still to come",
                        logged->directory, cli_agentd(logged->supervisor));
        else
                cli_say("there is no log in %s: it has no file wal-* with a number. A volatile bus "
                        "has none: `agentctl start` begins one",
                        logged->directory);
        return CLI_FAILED;
}
