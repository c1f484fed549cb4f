/* Recovery; see wal-recover.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-recover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agentd/log.h"
#include "agentd/wal/wal-aside.h"
#include "agentd/wal/wal-lock.h"
#include "agentd/wal/wal-operator.h"
#include "agentd/wal/wal-room.h"
#include "ring/log/load.h"
#include "ring/wal/wal-behind.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-reader.h"
#include "ring/wal/wal-whole.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/durable.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/handle.h"

#define SECOND_NS    UINT64_C(1000000000)
#define LOOK_BYTES   (UINT64_C(16) << 20) /* that are read between two looks at the clock */
#define LOOK_ENTRIES 4096u

/* A word of the bus, as the last entry has it that names it, and where that stands. */
struct wal_recover_word {
        uint64_t rev, sequence, entry; /* sequence 0: no entry names it */
};

struct wal_recover {
        const struct sb_config *config;
        struct sb_wal_reader *reader;
        const struct sb_wal_end *end;
        struct sb_wal_end damage; /* where the log is damaged, if it is */
        uint64_t last;            /* the batch up to which is loaded, and its cut */
        uint64_t cut, last_cut;   /* before that is known: what it may be; and what was met of it */
        struct sb_wal_whole whole; /* what the batches up to the cut say */
        struct wal_recover_word last_words[2];
        uint64_t own_first, own_last; /* batches with the bus's own keys; 0: there are none */
        uint64_t above;               /* the cut before the first batch that counts */
        uint64_t first_file;          /* damaged ones are before it: they go; 0: none are */
        bool goes_back, has_rest;     /* the log ends earlier from here on; or begins later */
        bool is_whole;                /* of a damaged log: what is before the damage has the bus */
        bool copied;                  /* what comes is a copy of the bus */
        int directory_fd;             /* while the segment is made */
        struct sb_wal_room room;
        /* Where the reading is. */
        uint64_t sequence, entry, entries, realtime_ns, begun_ns, said_ns;
        uint64_t last_ns; /* realtime of the cut */
        struct sb_load load;
        struct sb_load_words words;
        uint64_t buckets;  /* of the bus that the next floors are of */
        uint64_t unlooked; /* about how many bytes were read since the last look at the clock */
};

/* Once a second, in each reading. A look at the clock is worth some entries, or one large value. */
static bool wal_recover_is_to_say(struct wal_recover *recover, const struct sb_wal_entry *entry)
{
        uint64_t now;

        recover->unlooked += LOOK_BYTES / LOOK_ENTRIES + entry->value_len;
        if (recover->unlooked < LOOK_BYTES)
                return false;
        recover->unlooked = 0;
        now = sb_os_linux.now_ns(sb_os_linux.context);
        if (now - recover->said_ns < SECOND_NS)
                return false;
        recover->said_ns = now;
        return true;
}

/* ---- the first reading: where to begin ---- */

static int wal_recover_begin_any(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct wal_recover *recover = context;

        sb_wal_whole_begin(&recover->whole, batch);
        recover->sequence = batch->sequence;
        recover->entry = 0;
        *ret_skip = batch->cut > recover->cut;
        if (*ret_skip)
                return 0;
        recover->last = batch->sequence;
        recover->last_cut = batch->cut;
        recover->last_ns = batch->realtime_ns;
        return 0;
}

static void wal_recover_note_word(struct wal_recover *recover, const struct sb_wal_entry *entry)
{
        static const uint64_t names[] = {SB_WAL_WORD_HISTORY_FLOOR, SB_WAL_WORD_FORGOTTEN};

        for (uint32_t i = 0; i < 2; i++)
                if (entry->which == names[i])
                        recover->last_words[i] = (struct wal_recover_word){
                                entry->rev, recover->sequence, recover->entry};
}

static int wal_recover_find(void *context, const struct sb_wal_entry *entry)
{
        struct wal_recover *recover = context;

        recover->entry++;
        if (wal_recover_is_to_say(recover, entry))
                sb_log("reading the log: batch %" PRIu64 " of %" PRIu64, recover->sequence,
                        recover->end->sequence);
        if (entry->key_len && sb_reserved_is(entry->key, entry->key_len)) {
                if (!recover->own_first)
                        recover->own_first = recover->sequence;
                recover->own_last = recover->sequence;
        }
        if (entry->kind == SB_WAL_WORD)
                wal_recover_note_word(recover, entry);
        return sb_wal_whole_take(&recover->whole, entry);
}

/* The words that count: where the last entry of one does not, none does. */
static void wal_recover_take_words(struct wal_recover *recover)
{
        uint64_t *const takers[] = {&recover->words.history_floor, &recover->words.forgotten};

        recover->words.forgotten = UINT64_MAX;
        for (uint32_t i = 0; i < 2; i++) {
                const struct wal_recover_word *word = &recover->last_words[i];

                if (word->sequence > recover->whole.since ||
                        (word->sequence && word->sequence == recover->whole.since &&
                                word->entry > recover->whole.since_entry))
                        *takers[i] = word->rev;
        }
}

/* ---- the others: what counts ---- */

static bool wal_recover_counts(const struct wal_recover *recover, uint64_t sequence)
{
        return sequence >= recover->whole.since && sequence <= recover->last;
}

static int wal_recover_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct wal_recover *recover = context;

        recover->sequence = batch->sequence;
        recover->entry = 0;
        recover->realtime_ns = batch->realtime_ns;
        /* Pieces of one alone, or what is behind the word that it is the whole bus. */
        recover->copied = batch->cut == batch->previous_cut ||
                          (batch->sequence == recover->whole.since && recover->whole.since_entry);
        if (batch->sequence == recover->whole.since)
                recover->above = batch->previous_cut - (batch->cut == batch->previous_cut);
        *ret_skip = !wal_recover_counts(recover, batch->sequence) ||
                    (!recover->load.cut && (batch->sequence < recover->own_first ||
                                                   batch->sequence > recover->own_last));
        return 0;
}

/* Times ascend: what a batch says of earlier ones comes before its own. */
static int wal_recover_end(void *context, const struct sb_wal_batch *batch)
{
        struct wal_recover *recover = context;

        if (recover->load.cut && wal_recover_counts(recover, batch->sequence) &&
                batch->cut != batch->previous_cut)
                sb_load_time(&recover->load, batch->cut, batch->realtime_ns);
        return 0;
}

static int wal_recover_version(struct wal_recover *recover, const struct sb_wal_entry *entry)
{
        struct sb_load_version version = {.key = entry->key,
                .key_len = entry->key_len,
                .value = entry->value,
                .value_len = entry->value_len,
                .kind = entry->kind == SB_WAL_VALUE ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                .rev = entry->rev,
                .stamp = entry->stamp,
                .txn = entry->transaction,
                .slot = entry->writer,
                .born = entry->flags & SB_WAL_BORN,
                .copied = recover->copied};
        int r = sb_load_version(&recover->load, &version);

        if (r == -EMSGSIZE)
                recover->room.value_len = entry->value_len;
        return r == SB_E_FULL ? -ENOSPC : r;
}

static int wal_recover_entry(void *context, const struct sb_wal_entry *entry)
{
        struct wal_recover *recover = context;

        if (++recover->entry <= recover->whole.since_entry &&
                recover->sequence == recover->whole.since)
                return 0;
        if (recover->load.cut) {
                recover->entries++;
                if (wal_recover_is_to_say(recover, entry))
                        sb_log("recovering: batch %" PRIu64 " of %" PRIu64 ", %" PRIu64
                               " entries so far",
                                recover->sequence, recover->last, recover->entries);
        }
        switch (entry->kind) {
        case SB_WAL_WORD:
                /* Of the others, the first look has the last. */
                if (entry->which == SB_WAL_WORD_BUCKETS)
                        recover->buckets = entry->rev;
                return 0;
        case SB_WAL_FLOOR:
                /* One by one: a bus that began anew with another --size had other buckets. */
                return recover->load.cut ? sb_load_floor_of(&recover->load, recover->end->hash_seed,
                                                   entry->which, recover->buckets, entry->rev)
                                         : 0;
        case SB_WAL_TIME:
                if (recover->load.cut)
                        sb_load_time(&recover->load, entry->rev, entry->which);
                return 0;
        case SB_WAL_VALUE:
        case SB_WAL_TOMBSTONE:
        case SB_WAL_EXPIRED:
                return wal_recover_version(recover, entry);
        }
        return -EPROTONOSUPPORT;
}

static void wal_recover_ahead(void *context, const struct sb_wal_entry *entry)
{
        struct wal_recover *recover = context;

        if (entry->key_len)
                sb_load_fetch(&recover->load, entry->key, entry->key_len);
}

/* The keys are put in order. Return: as sb_load_end(). */
static int wal_recover_end_load(struct wal_recover *recover)
{
        void *space = mi_malloc(sb_load_space(&recover->load));
        int r = sb_load_end(&recover->load, space);

        mi_free(space);
        return r;
}

/* Both readings, into the handle's segment. Return: 0, -errno. */
static int wal_recover_load(struct wal_recover *recover, struct sb_handle *handle)
{
        struct sb_wal_visitor visitor = {
                .begin = wal_recover_begin, .entry = wal_recover_entry, .end = wal_recover_end};
        int r = sb_load_begin(handle, &recover->load);

        /* Few buses have keys of their own. */
        if (!r && recover->own_last)
                r = sb_wal_reader_visit(recover->reader, &visitor, recover);
        recover->words.cut = recover->cut;
        if (!r)
                r = sb_load_turn(&recover->load, &recover->words);
        visitor.ahead = wal_recover_ahead; /* nearly all keys are loaded in the second reading */
        if (!r)
                r = sb_wal_reader_visit(recover->reader, &visitor, recover);
        if (!r)
                r = wal_recover_end_load(recover);
        return r == SB_E_FULL ? -ENOSPC : r;
}

/* ---- the segment ---- */

/* Behind the loading: what the next log goes on from. */
static void wal_recover_set_words(
        const struct wal_recover *recover, int directory_fd, struct sb_superblock *super)
{
        uint64_t first = 0, last = 0;

        sb_wal_file_find_run(directory_fd, recover->last, recover->last, &first, &last);
        /* Relaxed, all: no other process maps the segment. */
        sb_store_relaxed(&super->durable, recover->cut);
        sb_store_relaxed(&super->copied_above, recover->above);
        sb_store_relaxed(&super->log_file, last);
        sb_store_relaxed(&super->log_batch[2 * (recover->last % 2)], recover->last);
        sb_store_relaxed(&super->log_batch[2 * (recover->last % 2) + 1], recover->cut);
}

/* Fill the segment. Return: 0, -errno. */
static int wal_recover_fill(
        struct wal_recover *recover, int directory_fd, struct sb_segment *segment)
{
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid(), .uid = geteuid()};
        struct sb_handle handle;
        uint64_t limit = recover->config->history_bytes;
        uint32_t slot, generation;
        void *space = mi_malloc(sb_handle_space(&segment->geometry));
        int r = -ENOMEM;

        if (space && !sb_os_register() &&
                !sb_roster_claim(segment, 0, &identity, &slot, &generation)) {
                sb_handle_init(&handle, segment, slot, generation, space);
                /* The log may have more than the bus had at once. Fault RECOVER_ALL_HISTORY. */
                if (!SB_FAULT(RECOVER_ALL_HISTORY))
                        sb_store_release(&segment->super->history_limit, limit);
                sb_wal_room_see_empty(&recover->room, segment);
                r = wal_recover_load(recover, &handle);
                sb_handle_fini(&handle);
                if (!r)
                        sb_wal_room_see_loaded(&recover->room, segment);
                else
                        sb_wal_room_see_full(&recover->room, segment);
        }
        mi_free(space);
        if (!r)
                wal_recover_set_words(recover, directory_fd, segment->super);
        return r;
}

/* Make a segment as @config says; with what the log has, if it has something. Return: 0, -errno. */
static int wal_recover_make_of(struct wal_recover *recover, const struct sb_config *config,
        int directory_fd, struct sb_memory *ret)
{
        struct sb_segment segment;
        struct sb_superblock *super;
        struct sb_memory memory;
        void *base;
        int r = 0;

        if (sb_memory_make(config, &memory, &base))
                return -1; /* and it has said why */
        super = base;
        /* Relaxed: no other process maps the segment. */
        sb_store_relaxed(&super->log_mode, (uint32_t)recover->config->mode);
        /* Also of a log that ends before its first batch does: the next one goes on in it. Fault
         * LOG_DISOWNED: not of that. */
        if (recover->end->hash_seed && (recover->last || !SB_FAULT(LOG_DISOWNED))) {
                super->seed = recover->end->hash_seed;
                memcpy(super->log_id, recover->end->id, sizeof(super->log_id));
        }
        if (recover->last)
                r = sb_segment_open(base, memory.size, &sb_os_linux, &segment)
                            ? -EIO
                            : wal_recover_fill(recover, directory_fd, &segment);
        /* From the beginning each change is told to the log. */
        if (!r && recover->config->mode != SB_LOG_NONE &&
                !sb_segment_open(base, memory.size, &sb_os_linux, &segment))
                sb_unlogged_ask_all(&segment);
        munmap(base, memory.size);
        if (r)
                sb_memory_drop(&memory);
        else
                *ret = memory;
        return r;
}

static int wal_recover_try(
        void *context, const struct sb_config *config, bool forward, struct sb_memory *ret)
{
        struct wal_recover *recover = context;

        recover->words.forward = forward;
        recover->entries = 0;
        return wal_recover_make_of(recover, config, recover->directory_fd, ret);
}

/* The same, of the size that all of it needs. Return: 0, -1. */
static int wal_recover_make(struct wal_recover *recover, int directory_fd, struct sb_memory *ret)
{
        struct sb_wal_room *room = &recover->room;
        int r;

        recover->directory_fd = directory_fd;
        *room = (struct sb_wal_room){.config = recover->config,
                .has_rules = recover->own_last != 0,
                .make = wal_recover_try,
                .context = recover};
        r = sb_wal_room_find(room, ret);
        if (!r && room->size != recover->config->size)
                sb_wal_operator_say_larger(recover->config, room->size);
        if (r == -ENOSPC || r == -EMSGSIZE)
                sb_wal_operator_say_too_small(room, r);
        else if (r && r != -1)
                sb_wal_operator_say_failed(recover->config, recover->sequence, r);
        return r ? -1 : 0;
}

/* ---- how the log ends ---- */

/* A damaged log is no power failure: agentd goes on up to a cut that the operator names, alone. */
static bool wal_recover_takes_damage(const struct wal_recover *recover)
{
        const struct sb_wal_end *end = recover->end;
        char name[SB_WAL_FILE_NAME_MAX];

        if (recover->config->recover_to && recover->config->recover_to <= end->cut) {
                sb_wal_file_name(end->file, name);
                sb_log("the log is damaged in %s at byte %" PRIu64
                       " (%s): what it has up to cut %" PRIu64 " is brought back",
                        name, end->offset, end->what, recover->config->recover_to);
                return true;
        }
        sb_wal_operator_say_damaged(recover->config, end, recover->is_whole);
        return false;
}

/* Damage in front of a whole copy costs nothing: the log is read as if it began behind it. Files up
 * to the damaged one go, but not one in which good batches follow: it goes with the copies. Fault
 * FRONT_NEEDED: that is not looked at. Return: 0, -errno. */
static int wal_recover_pass_damage(struct wal_recover *recover)
{
        const struct sb_wal_end *damage = &recover->damage;
        struct sb_wal_whole whole;
        char name[SB_WAL_FILE_NAME_MAX];
        int r;

        recover->damage = *recover->end;
        if (damage->ending != SB_WAL_DAMAGED || recover->config->mode == SB_LOG_NONE ||
                (recover->config->recover_to && recover->config->recover_to <= damage->cut))
                return 0;
        r = sb_wal_whole_look(recover->reader, &whole);
        recover->is_whole = !r && sb_wal_whole_begins(&whole, recover->end);
        if (!r || r == -ENODATA)
                r = SB_FAULT(FRONT_NEEDED) ? -ENODATA : sb_wal_behind(recover->reader);
        if (r == -ENODATA)
                recover->end = damage; /* which is not taken */
        if (r)
                return r == -ENODATA ? 0 : r;
        recover->is_whole = true;
        if (sb_wal_reader_first_file(recover->reader) > damage->file)
                recover->first_file = sb_wal_reader_first_file(recover->reader);
        sb_wal_file_name(damage->file, name);
        sb_log("the log is damaged in %s at byte %" PRIu64
               ": %s. That costs nothing: the whole bus is in it again behind that, from batch "
               "%" PRIu64 " on",
                name, damage->offset, damage->what, recover->end->first_sequence);
        return 0;
}

static bool wal_recover_takes(const struct wal_recover *recover)
{
        const struct sb_wal_end *end = recover->end;
        char name[SB_WAL_FILE_NAME_MAX];

        switch (end->ending) {
        case SB_WAL_CLEAN:
                return true;
        case SB_WAL_TORN:
                sb_wal_file_name(end->file, name);
                sb_log("the last batch of the log was not whole, as behind a power failure: "
                       "%" PRIu64 " bytes in %s from byte %" PRIu64
                       " on, never acknowledged, are dropped",
                        end->dropped, name, end->offset);
                return true;
        case SB_WAL_DAMAGED:
                return wal_recover_takes_damage(recover);
        case SB_WAL_OTHER_VERSION:
        case SB_WAL_OTHER_ENDIAN:
        case SB_WAL_OTHER_BUS:
        case SB_WAL_NO_FILE:
                sb_wal_operator_say_foreign(recover->config, end);
        }
        return false;
}

/* Whether nothing is missing before what there is: the first batch of all, one of the whole bus, or
 * the first one of a finished copy. Fault RECOVER_HEADLESS: not asked. */
static bool wal_recover_begins(const struct wal_recover *recover)
{
        if (sb_wal_whole_begins(&recover->whole, recover->end) || SB_FAULT(RECOVER_HEADLESS))
                return true;
        sb_wal_operator_say_headless(recover->config, recover->end);
        return false;
}

/* What is loaded ends with a batch, and so its cut is that of the batch: the log goes on from
 * there, and the next recovery asks whether each batch follows the one before. Return: 0, -1. */
static int wal_recover_find_cut(struct wal_recover *recover)
{
        const struct sb_wal_end *end = recover->end;

        if (recover->last) {
                recover->cut = recover->last_cut;
        } else if (recover->cut < end->cut) {
                sb_wal_operator_say_too_old(recover->config);
                return -1;
        } else {
                recover->last = end->sequence; /* batches, none of which can be read */
        }
        return 0;
}

/* Find out what counts. Return: 0, -1. */
static int wal_recover_look(struct wal_recover *recover)
{
        static const struct sb_wal_visitor visitor = {
                .begin = wal_recover_begin_any, .entry = wal_recover_find};
        int r;

        recover->cut = recover->end->cut;
        if (recover->config->recover_to && recover->config->recover_to < recover->cut)
                recover->cut = recover->config->recover_to;
        r = sb_wal_reader_visit(recover->reader, &visitor, recover);
        wal_recover_take_words(recover);
        if (r)
                sb_wal_operator_say_failed(recover->config, recover->sequence, r);
        return r || wal_recover_find_cut(recover) || !wal_recover_begins(recover) ? -1 : 0;
}

/* What the log has behind the cut that the operator named, and what is damaged, is kept aside:
 * soon the log's own files go on without it. Fault REST_DROPPED: it is not. Return: 0, -1. */
static int wal_recover_keep_rest(const struct wal_recover *recover, int directory_fd)
{
        const char *directory = recover->config->place.directory;
        char name[SB_WAL_ASIDE_NAME_MAX];
        int r;

        if (!recover->has_rest || SB_FAULT(REST_DROPPED))
                return 0;
        r = sb_wal_aside(directory_fd, recover->cut, name);
        if (r) {
                sb_log("the log in %s cannot be kept aside (%s), so nothing is done: copy its "
                       "files wal-* to another file system, and start agentd with a directory "
                       "there",
                        directory, strerror(-r));
                return -1;
        }
        sb_log("the log as it was is kept in %s/%s, with what comes behind cut %" PRIu64
               " and what is damaged: `agentctl log` and `agentctl verify` read it",
                directory, name, recover->cut);
        return 0;
}

/* Files that have nothing of what is brought back lose their names. Return: 0, -errno. */
static int wal_recover_take_rest_away(const struct wal_recover *recover, int directory_fd)
{
        bool back = recover->goes_back;
        uint64_t last = recover->has_rest ? recover->last : UINT64_MAX;
        int r = sb_wal_aside_take(directory_fd, back ? recover->cut : 0, last, recover->first_file);

        if (!r && back && !SB_FAULT(GOING_BACK_UNENDED))
                r = sb_wal_aside_end(directory_fd, recover->end, recover->last, recover->cut);
        return r ? r : sb_wal_aside_unmark(directory_fd);
}

/* When all is brought back that is to be: the log goes on where the rest begins. Fault
 * REST_TAKEN_FIRST: what is to be kept loses its names first. Return: 0, -1. */
static int wal_recover_cut_rest(
        struct wal_recover *recover, int directory_fd, struct sb_memory *memory)
{
        int r;

        recover->goes_back =
                recover->end->ending == SB_WAL_DAMAGED || recover->cut != recover->end->cut;
        recover->has_rest = recover->goes_back || recover->first_file;
        if (SB_FAULT(REST_TAKEN_FIRST))
                (void)wal_recover_take_rest_away(recover, directory_fd);
        if (wal_recover_keep_rest(recover, directory_fd)) {
                sb_memory_drop(memory);
                return -1;
        }
        r = wal_recover_take_rest_away(recover, directory_fd);
        if (!r)
                return 0;
        sb_log("files of the log in %s that come behind cut %" PRIu64
               ", or are damaged, cannot be taken away (%s): make that possible, and start agentd "
               "again in the same way",
                recover->config->place.directory, recover->cut, strerror(-r));
        sb_memory_drop(memory);
        return -1;
}

/* Static text: what the log had besides. */
static const char *wal_recover_left(const struct wal_recover *recover)
{
        enum sb_wal_ending ending = recover->end->ending;

        if (!recover->has_rest)
                return ending == SB_WAL_TORN ? "the last batch, which was not whole, as said before"
                                             : "nothing";
        return ending == SB_WAL_DAMAGED || recover->first_file
                       ? "what is damaged is kept aside, as said before"
                       : "what came later is kept aside, as said before";
}

static void wal_recover_say_done(
        const struct wal_recover *recover, int directory_fd, uint64_t begun_ns)
{
        uint64_t now = sb_os_linux.realtime_ns(sb_os_linux.context);
        uint64_t ago = now > recover->last_ns ? now - recover->last_ns : 0;
        uint64_t first = recover->whole.since ? recover->whole.since : 1;
        uint64_t first_file = 0, last_file = 0;
        time_t seconds = (time_t)(recover->last_ns / SECOND_NS);
        char time[32] = "a time that is not known";
        struct tm parts;

        if (gmtime_r(&seconds, &parts))
                (void)strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &parts);
        sb_wal_file_find_run(directory_fd, first, recover->last, &first_file, &last_file);
        sb_log("brought back: the bus as it was at cut %" PRIu64 ", at %s, %" PRIu64 ".%" PRIu64
               " s ago: %" PRIu64 " keys, deleted ones among them; from batches %" PRIu64
               " to %" PRIu64 ", %" PRIu64 " entries, in wal-%016" PRIx64 " to wal-%016" PRIx64
               ", in %" PRIu64 " ms; left out: %s",
                recover->cut, time, ago / SECOND_NS, ago % SECOND_NS / (SECOND_NS / 10),
                recover->load.node_count, first, recover->last, recover->entries, first_file,
                last_file, (sb_os_linux.now_ns(sb_os_linux.context) - begun_ns) / 1000000,
                wal_recover_left(recover));
}

/* @had_log: an agentd was here before that kept a log. */
static int wal_recover_run(
        const struct sb_config *config, int directory_fd, bool had_log, struct sb_memory *ret)
{
        struct wal_recover recover = {.config = config};
        uint64_t begun_ns = sb_os_linux.now_ns(sb_os_linux.context);
        int r = sb_wal_reader_open(directory_fd, NULL, &recover.reader);

        recover.said_ns = begun_ns;
        if (!r) {
                recover.end = sb_wal_reader_end(recover.reader);
                r = wal_recover_pass_damage(&recover);
        }
        if (r) {
                sb_log("the log in %s cannot be read: %s", config->place.directory, strerror(-r));
                r = -1;
        } else if (recover.end->hash_seed && config->mode == SB_LOG_NONE) {
                sb_log("%s has the log of a bus that was durable: say --durability batched or "
                       "strict to have it back, or move the files wal-* away",
                        config->place.directory);
                r = -1;
        } else if ((!recover.end->hash_seed &&
                           sb_wal_operator_finds_partial(config, directory_fd)) ||
                   !wal_recover_takes(&recover) || wal_recover_look(&recover) ||
                   wal_recover_make(&recover, directory_fd, ret) ||
                   wal_recover_cut_rest(&recover, directory_fd, ret)) {
                r = -1;
        } else {
                if (had_log && !recover.end->hash_seed && !config->recover_to)
                        sb_wal_operator_say_gone(config);
                sb_wal_operator_say_unreached(config, recover.end->cut);
                sb_wal_operator_say_passed(recover.end);
                if (recover.last)
                        wal_recover_say_done(&recover, directory_fd, begun_ns);
        }
        sb_wal_reader_close(recover.reader);
        return r;
}

int sb_wal_recover(const struct sb_config *config, int directory_fd, struct sb_memory *ret)
{
        struct sb_config again = *config;
        bool had_log;
        int lock, r;

        if (config->mode == SB_LOG_NONE || SB_FAULT(RECOVER_UNLOCKED))
                return wal_recover_run(config, directory_fd, false, ret);
        had_log = !faccessat(directory_fd, SB_PLACE_WRITER, F_OK, AT_SYMLINK_NOFOLLOW);
        lock = sb_wal_lock(config->place.directory, directory_fd);
        if (lock < 0)
                return -1;
        again.recover_to = sb_wal_aside_wanted(directory_fd, config->recover_to);
        r = wal_recover_run(&again, directory_fd, had_log, ret);
        close(lock);
        return r;
}
