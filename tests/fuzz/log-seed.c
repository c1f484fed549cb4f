/*
 * The logs that inputs change; see log-seed.h.
 *
 * A story is told of a bus with a few keys: which versions each has, and in which batch they come.
 * A version's value follows from its key and its revision, so a copy can say it once more.
 */
#define _GNU_SOURCE
#include "tests/fuzz/log-seed.h"

#include <string.h>
#include <unistd.h>

#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "ring/wal/wal-file.h"
#include "shm/base/hash.h"
#include "shm/history/rules.h"
#include "shm/layout/reserved.h"
#include "tests/power/batches.h"
#include "tests/unit/draw.h"

#define KEYS        12u
#define REVS        32u
#define BEGAN_NS    UINT64_C(1700000000000000000)
#define SECOND_NS   UINT64_C(1000000000)
#define BUCKETS     64u
#define VALUE_MAX   1600u
#define COPY_BEHIND 6u
#define COPY_PARTS  3u

struct story_key {
        uint64_t rev;
        uint64_t stamps[REVS], txns[REVS];
        bool deleted[REVS];
};

static struct story_told {
        struct story_key keys[KEYS];
        uint64_t clock, txns;
        bool still; /* a batch has no change, and the cut of the one before */
        uint64_t rule_stamp, mark_stamp, mark_cut;
} told;

static struct sb_wal_io io;
static struct sb_wal_writer_options options;

/* ---- entries ---- */

static int add_version(struct sb_wal_writer *writer, uint32_t i, uint64_t rev)
{
        static unsigned char value[VALUE_MAX];
        const struct story_key *key = &told.keys[i];
        bool deleted = key->deleted[rev - 1];
        char name[32];
        struct sb_wal_entry entry = {
                .kind = deleted ? SB_WAL_TOMBSTONE : SB_WAL_VALUE,
                .flags = rev == 1 ? SB_WAL_BORN : 0,
                .writer = 1,
                .key = name,
                .key_len = (uint32_t)snprintf(name, sizeof(name), "key-%02u", i),
                .value = value,
                .rev = rev,
                .stamp = key->stamps[rev - 1],
                .transaction = key->txns[rev - 1],
        };

        if (!deleted)
                entry.value_len = (i + rev) % 9 == 4 ? 1500 : (i * 13 + rev * 7) % 40;
        memset(value, (int)(i * 16 + rev), entry.value_len);
        return sb_wal_writer_add(writer, &entry);
}

static int add_word(struct sb_wal_writer *writer, uint64_t which, uint64_t word)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_WORD, .which = which, .rev = word};

        return sb_wal_writer_add(writer, &entry);
}

static int add_reserved(struct sb_wal_writer *writer, const void *key, uint32_t key_len,
        uint64_t stamp, const void *value, uint64_t value_len)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_VALUE,
                .flags = SB_WAL_BORN,
                .writer = 1,
                .key = key,
                .key_len = key_len,
                .value = value,
                .value_len = value_len,
                .rev = 1,
                .stamp = stamp};

        return sb_wal_writer_add(writer, &entry);
}

/* The last three versions of each key are kept. */
static int add_rule(struct sb_wal_writer *writer)
{
        struct sb_rule_value value = {
                .word = SB_RULE_WORD(SB_RULE_LAST, 3), .since = told.rule_stamp + 1};
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t key_len = sb_rules_key("key-", 4, true, key);

        return add_reserved(writer, key, key_len, told.rule_stamp, &value, sizeof(value));
}

static int add_mark(struct sb_wal_writer *writer)
{
        struct sb_named_value value = {.cut = told.mark_cut, .owner = UINT64_C(2) << 48 | 5};

        return add_reserved(writer, SB_RESERVED_MARK "before", SB_MARK_PREFIX + 6, told.mark_stamp,
                &value, sizeof(value));
}

/* ---- batches ---- */

static int begin_batch(struct sb_wal_writer *writer, uint32_t stamps)
{
        uint64_t now = BEGAN_NS + told.clock * SECOND_NS;
        uint64_t cut = told.clock + (told.still ? 0 : stamps + 1);
        int r = sb_wal_writer_begin(writer, cut, now, now - BEGAN_NS + SECOND_NS);

        r = r ? r : add_word(writer, SB_WAL_WORD_HISTORY_FLOOR, 0);
        return r ? r : add_word(writer, SB_WAL_WORD_FORGOTTEN, 1);
}

static int end_batch(struct sb_wal_writer *writer)
{
        told.clock += !told.still;
        options.sequence++;
        options.cut = told.clock;
        return sb_wal_writer_end(writer);
}

/* One more version of a key, in the batch. */
static int write_key(struct sb_wal_writer *writer, uint32_t i, uint64_t txn)
{
        struct story_key *key = &told.keys[i];

        FUZZ_CHECK(key->rev < REVS);
        key->stamps[key->rev] = txn ? told.clock : ++told.clock;
        key->txns[key->rev] = txn;
        key->deleted[key->rev] = key->rev % 5 == 3;
        return add_version(writer, i, ++key->rev);
}

/* A batch with versions of some keys; two of them are of one transaction. */
static int write_batch(struct sb_wal_writer *writer, uint32_t writes)
{
        uint32_t one = draw(KEYS), other = (one + 1 + draw(KEYS - 1)) % KEYS;
        uint64_t txn = UINT64_C(2) << 48 | ++told.txns;
        int r = begin_batch(writer, writes + 1);

        for (uint32_t i = 0; i < writes && !r; i++)
                r = write_key(writer, draw(KEYS), 0);
        told.clock++;
        r = r ? r : write_key(writer, one, txn);
        r = r ? r : write_key(writer, other, txn);
        return r ? r : end_batch(writer);
}

/* The first batch of all has a rule, and a mark. */
static int write_first(struct sb_wal_writer *writer)
{
        int r = begin_batch(writer, 4);

        told.rule_stamp = ++told.clock;
        r = r ? r : add_rule(writer);
        r = r ? r : write_key(writer, 0, 0);
        told.mark_cut = ++told.clock;
        told.mark_stamp = ++told.clock;
        r = r ? r : add_mark(writer);
        return r ? r : end_batch(writer);
}

/* What there is of some of the keys; of each the last three versions. */
static int copy_keys(struct sb_wal_writer *writer, uint32_t first, uint32_t end)
{
        int r = 0;

        for (uint32_t i = first; i < end; i++) {
                uint64_t rev = told.keys[i].rev;

                for (uint64_t at = rev > 3 ? rev - 2 : 1; at <= rev && !r; at++)
                        r = add_version(writer, i, at);
        }
        return r;
}

static int copy_floors(struct sb_wal_writer *writer, uint64_t since)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_FLOOR};
        int r = add_word(writer, SB_WAL_WORD_BUCKETS, BUCKETS);

        for (entry.which = 3; entry.which < BUCKETS && !r; entry.which += 20) {
                entry.rev = entry.which;
                r = sb_wal_writer_add(writer, &entry);
        }
        entry = (struct sb_wal_entry){
                .kind = SB_WAL_TIME, .which = BEGAN_NS + 3 * SECOND_NS, .rev = 3};
        r = r ? r : sb_wal_writer_add(writer, &entry);
        return r ? r : add_word(writer, SB_WAL_WORD_SINCE, since);
}

static int write_copy(struct sb_wal_writer *writer)
{
        uint64_t since = options.sequence + 1;
        int r = 0;

        for (uint32_t part = 0; part < COPY_PARTS && !r; part++) {
                r = begin_batch(writer, 0);
                if (!part) {
                        r = r ? r : add_rule(writer);
                        r = r ? r : add_mark(writer);
                }
                r = r ? r
                      : copy_keys(writer, part * KEYS / COPY_PARTS, (part + 1) * KEYS / COPY_PARTS);
                if (part + 1 == COPY_PARTS)
                        r = r ? r : copy_floors(writer, since);
                r = r ? r : end_batch(writer);
        }
        return r;
}

static int write_batches(struct sb_wal_writer *writer, uint32_t count)
{
        int r = 0;

        for (uint32_t i = 0; i < count && !r; i++)
                r = options.sequence ? write_batch(writer, i % 5) : write_first(writer);
        return r;
}

/* ---- hashes ---- */

uint64_t log_hash_begin(const struct sb_wal_batch *batch)
{
        return sb_hash_key(batch, sizeof(*batch), 1);
}

uint64_t log_hash_entry(uint64_t hash, const struct sb_wal_entry *entry)
{
        const uint64_t words[] = {entry->kind, entry->flags, entry->writer, entry->key_len,
                entry->value_len, entry->rev, entry->stamp, entry->which, entry->transaction,
                entry->expiry_ns};

        hash = sb_hash_key(words, sizeof(words), hash);
        if (entry->key_len)
                hash = sb_hash_key(entry->key, entry->key_len, hash);
        return entry->value_len ? sb_hash_key(entry->value, entry->value_len, hash) : hash;
}

/* ---- what is known of a log ---- */

struct noting {
        struct log_seed *seed;
        uint64_t hash;
};

static int note_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct noting *noting = context;

        *ret_skip = false;
        noting->hash = log_hash_begin(batch);
        return 0;
}

static int note_entry(void *context, const struct sb_wal_entry *entry)
{
        struct noting *noting = context;

        noting->hash = log_hash_entry(noting->hash, entry);
        return 0;
}

static int note_end(void *context, const struct sb_wal_batch *batch)
{
        struct noting *noting = context;
        struct log_seed *seed = noting->seed;

        for (uint32_t i = 0; i < seed->written_count; i++)
                if (seed->written[i].hash == noting->hash)
                        return 0;
        FUZZ_CHECK(seed->written_count < LOG_WRITTEN_MAX);
        seed->written[seed->written_count++] =
                (struct log_written){batch->sequence, batch->cut, noting->hash};
        return 0;
}

static void note_batches(int directory_fd, struct log_seed *seed)
{
        static const struct sb_wal_visitor visitor = {
                .begin = note_begin, .entry = note_entry, .end = note_end};
        struct noting noting = {.seed = seed};
        struct sb_wal_reader *reader;

        FUZZ_CHECK(!sb_wal_reader_open(directory_fd, NULL, &reader));
        FUZZ_CHECK(sb_wal_reader_end(reader)->ending == SB_WAL_CLEAN);
        FUZZ_CHECK(!sb_wal_reader_visit(reader, &visitor, &noting));
        seed->first = sb_wal_reader_end(reader)->first_sequence;
        seed->last = sb_wal_reader_end(reader)->sequence;
        sb_wal_reader_close(reader);
}

/* The frames of one file. Those of batches from @limit on do not count. */
static void note_frames(
        struct log_seed *seed, uint32_t at, const struct sb_wal_file *header, uint64_t limit)
{
        const struct log_file *file = &seed->image.files[at];
        uint32_t offset = SB_WAL_BLOCK;
        struct sb_wal_frame frame;

        while (offset < file->size &&
                sb_wal_frame_decode(file->bytes + offset, header->salt, offset, &frame) &&
                sb_wal_frame_is_whole(file->bytes + offset, &frame, header->salt)) {
                uint32_t space = (uint32_t)sb_wal_frame_space(frame.payload_len);

                FUZZ_CHECK(seed->frame_count < LOG_FRAMES_MAX);
                if (frame.batch.sequence < limit)
                        seed->frames[seed->frame_count++] =
                                (struct log_frame){at, offset, space, frame.batch.sequence};
                offset += space;
        }
}

static void note_all_frames(struct log_seed *seed)
{
        uint64_t limit = UINT64_MAX;

        for (uint32_t i = LOG_FILES_MAX; i-- > 0;) {
                struct sb_wal_file header;
                uint32_t version;

                if (!seed->image.files[i].there)
                        continue;
                FUZZ_CHECK(sb_wal_file_decode(seed->image.files[i].bytes, &header, &version) ==
                           SB_WAL_HEADER_GOOD);
                note_frames(seed, i, &header, limit);
                if (header.first_sequence + (header.first_frame > 0) < limit)
                        limit = header.first_sequence + (header.first_frame > 0);
        }
}

/* ---- the logs ---- */

static int make_anew(struct sb_wal_writer *writer, int directory_fd, struct log_seed *seed)
{
        struct story_told before;
        int r = write_batches(writer, 4);

        before = told;
        r = r ? r : write_batches(writer, 1);
        sb_wal_writer_close(writer);
        note_batches(directory_fd, seed);
        told = before;
        options.sequence--;
        options.cut = told.clock;
        r = r ? r : sb_wal_writer_open(&options, &writer);
        if (r)
                return r;
        told.clock += 2;
        r = write_batches(writer, 3);
        sb_wal_writer_close(writer);
        return r;
}

static int make_others(struct sb_wal_writer *writer, uint32_t kind)
{
        int r = write_batches(writer, kind >= LOG_COPY ? COPY_BEHIND : 8);
        uint64_t cut = told.clock;

        if (kind >= LOG_COPY) {
                told.still = kind == LOG_PIECES;
                r = r ? r : write_copy(writer);
                told.still = false;
                r = r || kind != LOG_COPY ? r : sb_wal_writer_release(writer, cut);
                r = r ? r : write_batches(writer, 3);
        }
        sb_wal_writer_close(writer);
        return r;
}

void log_seed_make(uint32_t kind, int directory_fd, struct log_seed *ret)
{
        struct sb_wal_writer *writer;
        const char *reason;

        memset(&told, 0, sizeof(told));
        told.clock = 2;
        draw_state = kind + 1;
        FUZZ_CHECK(!sb_wal_backend_open(SB_WAL_SYNC, directory_fd, &io, &reason));
        options = (struct sb_wal_writer_options){.directory_fd = directory_fd,
                .io = &io,
                .id = "the bus's number",
                .hash_seed = 77,
                .file_size = kind == LOG_PLAIN  ? LOG_FILE_MAX
                             : kind >= LOG_COPY ? 24u << 10
                                                : 16u << 10,
                .payload_max = kind == LOG_PLAIN ? 4000 : 1600};
        FUZZ_CHECK(!sb_wal_writer_open(&options, &writer));
        FUZZ_CHECK(!(kind == LOG_ANEW ? make_anew(writer, directory_fd, ret)
                                      : make_others(writer, kind)));
        sb_wal_backend_close(&io);
        log_image_read(directory_fd, &ret->image);
        note_batches(directory_fd, ret);
        note_all_frames(ret);
        scratch_empty(directory_fd);
}
