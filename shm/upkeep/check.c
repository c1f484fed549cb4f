/*
 * The validator's passes over the ordered index, the buckets and the records; see check.h.
 *
 * A finding counts only if the word that it hangs on has not changed meanwhile: else some process
 * was at work there, and the validator looks again.
 */

#include "shm/upkeep/check.h"

#include <errno.h>
#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/ahead.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/descriptor.h"
#include "shm/notify/hint.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/check-units.h"

/* ---- the ordered index ---- */

/* Whether a block is dated. Nothing is dated before it is out of reach, so nothing links such a
 * block; but a walk may come to it by a link that has gone meanwhile. Then a walk that begins after
 * this answer does not meet it again: the caller suspects it, and walks once more. */
static bool check_is_dated(struct sb_block *block)
{
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

        /* A block in a client's hand is another matter: the pass over units asks whether that
         * client has noted it. */
        return retire >= SB_ERA_MIN && retire < SB_RETIRE_FREEING;
}

/* ---- nodes ---- */

/* What is wrong with a node's cell: it names none, or not its key's. */
static const char *check_order_cell(struct sb_look *look, struct sb_node *node)
{
        uint64_t own = sb_pin_load(look->handle, &node->cell), word;
        struct sb_word64 *cell = sb_cell_at(look->segment, own);
        struct sb_version *head;

        if (!own || own == SB_NODE_GONE)
                return NULL;
        if (!cell)
                return "it names no cell";
        word = sb_pin_load(look->handle, cell);
        head = sb_version_at(look->segment, word & SB_OFFSET_MASK);
        /* If the node is gone meanwhile, it says so before its cell is emptied. */
        if ((!head || head->node != sb_offset_of(look->segment, node)) &&
                sb_pin_load(look->handle, &node->cell) == own)
                return "its cell is another key's";
        return NULL;
}

/* The last key of a pass. */
struct check_order_last {
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len;
        bool any;
};

/* What is wrong with a node that the pass has come to. A node that left meanwhile is not found any
 * more, and says that it is GONE. */
static const char *check_order_node(
        struct sb_look *look, struct sb_node *node, struct check_order_last *last)
{
        struct sb_node_key key = sb_node_key(look->segment, node);
        uint64_t size;
        bool linked;

        if (!sb_unit_is_block(
                    look->segment, sb_offset_of(look->segment, node), SB_UNIT_NODES, &size))
                return "there is no node";
        if (!key.bytes || sb_node_size(key.len) > size)
                return "its key length is wrong";
        if (last->any && sb_bytes_compare(key.bytes, key.len, last->key, last->len) <= 0)
                return "it is out of order";
        memcpy(last->key, key.bytes, key.len);
        last->len = key.len;
        last->any = true;
        linked = sb_order_find(look->handle, key.bytes, key.len) == node;
        if (linked && check_is_dated(&node->block) &&
                sb_order_find(look->handle, key.bytes, key.len) == node)
                return "it is linked and dated";
        if (!linked && sb_pin_load(look->handle, &node->cell) != SB_NODE_GONE)
                return "its key does not lead to it";
        return check_order_cell(look, node);
}

/* The nodes behind the last key. Return: whether there may be more. */
static bool check_order_run(struct sb_look *look, struct check_order_last *last)
{
        struct sb_order_run run;
        uint32_t i;

        sb_order_take_run(
                look->handle, last->key, last->len, !last->any, false, SB_ORDER_RUN, &run);
        sb_ahead_nodes(look->segment, run.node, run.count, true);
        for (i = 0; i < run.count; i++) {
                const char *fault = check_order_node(look, run.node[i], last);

                if (fault) {
                        sb_report_problem(look->report, "ordered index, node at offset %llu: %s",
                                (unsigned long long)sb_offset_of(look->segment, run.node[i]),
                                fault);
                        return false;
                }
                look->report->nodes++;
        }
        if (sb_damage_met(look->handle)) {
                sb_report_problem(look->report,
                        "ordered index: a slot leads to no node with a key, and no branch");
                return false;
        }
        return run.more;
}

static void check_order(struct sb_look *look)
{
        struct check_order_last last = {.len = 0};
        bool more = true;

        /* Bound: result. Keys ascend, or it is reported. */
        while (more) {
                sb_pin(look->handle);
                more = check_order_run(look, &last);
                sb_unpin(look->handle);
        }
}

/* ---- buckets and chains ---- */

/* What is wrong with a version of a transaction that is under way or aborted. @word: its stamp. */
static const char *check_intent(
        struct sb_look *look, struct sb_version *version, uint64_t word, bool newest)
{
        struct sb_descriptor *descriptor;

        if (word == SB_STAMP_ABORTED)
                return NULL;
        if (!sb_stamp_is_intent(word))
                return "a stamp makes no sense";
        if (!newest)
                return "an intent was replaced before it was decided";
        if (!(SB_SHAPE_KIND(version->shape) & SB_VERSION_HAS_TXN))
                return "an intent has no transaction's number";
        descriptor = sb_unit_is_block(look->segment, word & SB_OFFSET_MASK, SB_UNIT_VERSIONS, NULL)
                             ? sb_descriptor_at(look->segment, word & SB_OFFSET_MASK)
                             : NULL;
        /* A:status. */
        if (descriptor &&
                SB_STATUS_STATE(sb_load_acquire(&descriptor->status)) <= SB_STATUS_ABORTED)
                return NULL;
        /* If it is over meanwhile, the outcome was copied first. A:stamp. */
        return sb_load_acquire(&version->stamp) == word ? "an intent names no transaction" : NULL;
}

/* What is wrong with a committed version. @rev, @stamp: of the committed one above. */
static const char *check_descent(struct sb_look *look, struct sb_version *version,
        uint64_t own_stamp, uint64_t rev, uint64_t stamp)
{
        /* One write twice: a mover was stopped (upkeep/move.h). */
        if (version->rev > rev || (version->rev == rev && own_stamp != stamp))
                return "revisions do not descend";
        if ((!own_stamp && rev != UINT64_MAX) || own_stamp > stamp)
                return "stamps do not descend";
        /* A:clock. */
        if (own_stamp >= sb_load_acquire(&look->segment->super->clock) + 1)
                return "a stamp is ahead of the clock";
        return NULL;
}

/* What is wrong with a chain. *suspect: as for check_level(). */
static const char *check_chain(
        struct sb_look *look, struct sb_version *head, uint64_t *suspect, uint64_t *ret_versions)
{
        struct sb_segment *segment = look->segment;
        const uint64_t suspected = *suspect;
        uint64_t most = segment->geometry.size / SB_BLOCK_MIN, rev = UINT64_MAX, stamp = UINT64_MAX,
                 link, size, steps;
        struct sb_version *version = head;
        const char *fault;

        /* Bound: result. It is reported. */
        for (steps = 0; version; steps++) {
                uint64_t own_stamp, at = sb_offset_of(segment, version), shape;

                if (steps > most)
                        return "the chain is endless";
                if (!sb_unit_is_block(segment, at, SB_UNIT_VERSIONS, &size))
                        return "the chain leads to what is no version";
                shape = sb_once(version->shape);
                if (!SB_SHAPE_KEY_LEN(shape) || SB_SHAPE_KEY_LEN(shape) > segment->key_len_max ||
                        sb_version_size(shape) > size)
                        return "key and value do not fit their block";
                if (version->node != head->node)
                        return "a version of another key is in the chain";
                own_stamp = sb_load_acquire(&version->stamp); /* A:stamp. */
                if (own_stamp & SB_STAMP_INTENT) {
                        fault = check_intent(look, version, own_stamp, !steps);
                } else {
                        fault = check_descent(look, version, own_stamp, rev, stamp);
                        rev = version->rev;
                        if (own_stamp)
                                stamp = own_stamp;
                }
                if (fault)
                        return fault;
                if (sb_look_is_unborn(look, &version->block.birth))
                        return "a version is born in an era to come";
                if (at == suspected)
                        return "a version in the chain is dated";
                if (!*suspect && check_is_dated(&version->block))
                        *suspect = at;
                link = sb_pin_load(look->handle, &version->prev);
                if (!steps && (link & SB_PREV_MARKED))
                        return "the newest version is on its way out";
                if ((link & SB_OFFSET_MASK) && !sb_version_at(segment, link & SB_OFFSET_MASK))
                        return "the chain leads out of the segment";
                version = link & SB_OFFSET_MASK ? sb_version_at(segment, link & SB_OFFSET_MASK)
                                                : NULL;
        }
        *ret_versions = steps;
        return NULL;
}

/* Whether lookups of a key with this hash come to the bucket; @all: whether they might. */
static bool check_in_path(struct sb_look *look, uint64_t hash, uint32_t bucket, bool all)
{
        struct sb_path path = sb_path_first(look->segment, hash);

        do {
                if (path.bucket == bucket)
                        return true;
        } while (all ? sb_path_next_of_all(look->segment, hash, &path)
                     : sb_path_next(look->segment, hash, &path));
        return false;
}

/* A placeholder that is not confirmed may not be signed yet. */
static bool check_in_place(
        struct sb_look *look, uint64_t hash, uint64_t number, const struct sb_version *head)
{
        uint32_t bucket = (uint32_t)(number / 8 - 1);
        uint64_t stamp = sb_load_acquire(&head->stamp); /* A:stamp. Before the sign. */

        if (check_in_path(look, hash, bucket, false))
                return true;
        return SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER && !stamp &&
               check_in_path(look, hash, bucket, true);
}

static const char *check_head(
        struct sb_look *look, uint64_t word, uint64_t number, struct sb_version *head)
{
        struct sb_segment *segment = look->segment;
        uint64_t hash, own, stamp, shape, node_at;
        struct sb_node_key key;
        struct sb_node *node;
        uint32_t retire;

        if (!sb_unit_is_block(segment, word & SB_OFFSET_MASK, SB_UNIT_VERSIONS, NULL))
                return "leads to no version";
        node_at = sb_once(head->node);
        node = sb_unit_is_block(segment, node_at, SB_UNIT_NODES, NULL)
                       ? sb_node_at(segment, node_at)
                       : NULL;
        if (!node)
                return "its version names no node";
        shape = sb_version_shape(segment, head);
        if (!SB_SHAPE_KEY_LEN(shape))
                return "its version has impossible lengths";
        key = sb_node_key(segment, node);
        if (!key.bytes ||
                sb_bytes_compare(key.bytes, key.len, head->bytes, SB_SHAPE_KEY_LEN(shape)))
                return "version and node have different keys";
        hash = sb_hash_key(key.bytes, key.len, segment->seed);
        if (node->hash != hash || sb_tag_of(hash) != (word & SB_TAG_MASK) ||
                !check_in_place(look, hash, number, head))
                return "the key does not belong in this bucket";
        /* A:stamp. Before the node's cell: a placeholder is stamped after its node has named the
         * cell. */
        stamp = sb_load_acquire(&head->stamp);
        own = sb_pin_load(look->handle, &node->cell);
        if ((word & SB_CELL_FROZEN) ||
                (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER && !stamp))
                return NULL; /* on its way out, or not confirmed yet */
        if (own != number)
                return "its node names another cell";
        if (look->quiescent && !sb_reach_node(look->handle, node))
                return "its node is not in the ordered index";
        retire = sb_load_acquire(&head->block.retire); /* A:retire. */
        if (retire > SB_RETIRE_HELD && retire < SB_RETIRE_FREEING)
                return "its newest version is on its way out, or dated";
        return NULL;
}

/* The version that the key's state goes by: the first that is no intent and was not aborted. */
static struct sb_version *check_counting(struct sb_look *look, struct sb_version *head)
{
        struct sb_version *version = head;

        while (version && (sb_load_acquire(&version->stamp) & SB_STAMP_INTENT)) /* A:stamp. */
                version = sb_version_at(
                        look->segment, sb_pin_load(look->handle, &version->prev) & SB_OFFSET_MASK);
        return version ? version : head;
}

static void check_cell(struct sb_look *look, uint32_t bucket, uint32_t index)
{
        struct sb_check_report *report = look->report;
        uint64_t number = SB_CELL_NUMBER(bucket, index), word, versions = 0, suspect = 0, before;
        struct sb_word64 *cell = sb_cell_at(look->segment, number);
        struct sb_version *head;
        const char *fault;

        for (;;) {
                word = sb_pin_load(look->handle, cell);
                if (!word)
                        return;
                head = sb_version_at(look->segment, word & SB_OFFSET_MASK);
                before = suspect;
                fault = head ? check_head(look, word, number, head) : "leads out of the segment";
                if (!fault)
                        fault = check_chain(look, head, &suspect, &versions);
                if (!fault)
                        fault = sb_ring_fault(look->handle,
                                sb_node_at(look->segment, sb_once(head->node)), cell, word,
                                look->quiescent);
                if (!fault)
                        fault = sb_hint_fault(
                                look->handle, sb_node_at(look->segment, sb_once(head->node)));
                if (!fault && suspect == before)
                        break;
                if (fault && sb_pin_load(look->handle, cell) == word)
                        break;
        }
        if (fault) {
                sb_report_problem(look->report, "bucket %u, cell %u: %s", bucket, index, fault);
                return;
        }
        report->versions += versions;
        head = check_counting(look, head);
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                report->placeholders++;
        else if ((SB_SHAPE_KIND(head->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE)
                report->keys++;
        else
                report->keys_deleted++;
}

/* Each cell, and the chain in it. */
static void check_buckets(struct sb_look *look, uint32_t first, uint32_t end)
{
        uint32_t bucket, index;

        for (bucket = first; bucket < end; bucket++) {
                sb_pin(look->handle);
                sb_ahead_bucket(look->segment, bucket);
                for (index = 0; index < SB_BUCKET_CELLS; index++)
                        check_cell(look, bucket, index);
                sb_unpin(look->handle);
        }
}

/* ---- records ---- */

/* Reclaimers and pruners pass over a record that is not in the roster, and look at each one that
 * is. */
static void check_roster(struct sb_look *look, uint32_t slot)
{
        struct sb_record *record = sb_record_at(look->segment, slot);
        uint32_t generation, still;
        enum sb_record_state state = sb_roster_state(look->segment, slot, &generation);
        bool listed = sb_roster_lists(look->segment, slot);
        /* A:pins, A:operation, A:freeing. */
        bool notes = sb_load_acquire(&record->pin) || sb_load_acquire(&record->operation) ||
                     sb_load_acquire(&record->freeing);

        /* A record is listed after it is claimed and before it is ATTACHED; it leaves the roster
         * when it notes nothing any more, and is FREE after that. */
        if (sb_roster_state(look->segment, slot, &still) != state || still != generation)
                return;
        if (state == SB_RECORD_ATTACHED && notes && !listed)
                sb_report_problem(look->report, "client %u is in use and not in the roster", slot);
        if (state == SB_RECORD_FREE && listed)
                sb_report_problem(look->report, "client %u is free and in the roster", slot);
}

static void check_record(struct sb_look *look, uint32_t slot)
{
        struct sb_segment *segment = look->segment;
        struct sb_record *record = sb_record_at(segment, slot);
        enum sb_record_state state = sb_roster_state(segment, slot, NULL);
        uint64_t high = sb_load_acquire(&record->guard_high), at; /* A:guard. */
        uint32_t i;

        if (state > SB_RECORD_DEAD) {
                sb_report_problem(look->report, "client %u: its state makes no sense", slot);
                return;
        }
        if (high > SB_GUARDS_MAX) {
                sb_report_problem(look->report, "client %u: more guards than there can be", slot);
                high = 0;
        }
        check_roster(look, slot);
        look->report->clients += state == SB_RECORD_ATTACHED;
        look->report->pinned += sb_load_acquire(&record->pin) != 0; /* A:pins. */
        for (i = 0; i < segment->geometry.snapshot_count; i++)
                look->report->snapshots +=
                        sb_load_acquire(&sb_record_snapshots(record)[i]) != 0; /* A:announce. */
        for (i = 0; i < high; i++) {
                at = sb_guard_read(segment, record, i);
                look->report->guards += at != 0;
                look->report->guards_stale +=
                        at && !sb_unit_is_block(segment, at, SB_UNIT_VERSIONS, NULL) &&
                        !sb_unit_is_block(segment, at, SB_UNIT_NODES, NULL);
        }
        /* A:operation, A:pins. A client clears its note before its pin. */
        if (look->quiescent && sb_load_acquire(&record->operation) &&
                !sb_load_acquire(&record->pin))
                sb_report_problem(
                        look->report, "client %u is not pinned but in an operation", slot);
        /* A:pins, A:freeing. Chunks of guard words are freed without a pin. */
        if (look->quiescent && state == SB_RECORD_FREE &&
                (sb_load_acquire(&record->pin) || sb_load_acquire(&record->freeing)))
                sb_report_problem(
                        look->report, "client %u is free but pinned, or frees a block", slot);
}

static void check_records(struct sb_look *look)
{
        for (uint32_t slot = 0; slot < look->segment->geometry.record_count; slot++)
                check_record(look, slot);
}

/* ---- the whole, and its parts ---- */

/* Where part @part begins of @count things. */
static uint32_t check_first(uint32_t count, uint32_t part, uint32_t parts)
{
        return (uint32_t)((uint64_t)count * part / parts);
}

static void check_pass(struct sb_look *look, struct sb_check_part part)
{
        const struct sb_geometry *g = &look->segment->geometry;

        switch (part.pass) {
        case SB_CHECK_ORDER:
                check_order(look);
                break;
        case SB_CHECK_BUCKETS:
                check_buckets(look, check_first(g->bucket_count, part.part, part.parts),
                        check_first(g->bucket_count, part.part + 1, part.parts));
                break;
        case SB_CHECK_UNITS:
                sb_look_at_units(look, check_first(g->unit_count, part.part, part.parts),
                        check_first(g->unit_count, part.part + 1, part.parts));
                break;
        case SB_CHECK_RECORDS:
                check_records(look);
                break;
        }
}

int sb_check_begin(struct sb_handle *handle, struct sb_check_report *ret)
{
        struct sb_segment *segment = &handle->segment, again;
        struct sb_superblock *super = segment->super;
        /* A:stable, A:clock. In this order: the stable cut is below the clock, which only rises. */
        uint64_t stable = sb_load_acquire(&super->stable), clock = sb_load_acquire(&super->clock);
        uint64_t era = sb_load_acquire(&super->era); /* A:era. */

        memset(ret, 0, sizeof(*ret));
        if (sb_segment_open(segment->base, segment->geometry.size, segment->os, &again))
                return -EBADMSG;
        if (stable >= clock || clock & SB_STAMP_INTENT)
                sb_report_problem(ret, "clock %llu and stable cut %llu make no sense",
                        (unsigned long long)clock, (unsigned long long)stable);
        if (sb_era_low(era) < SB_ERA_MIN || era > SB_ERA_MAX)
                sb_report_problem(ret, "era %llu makes no sense", (unsigned long long)era);
        if (super->held_units > segment->geometry.unit_count)
                sb_report_problem(ret, "%llu units held back of %u make no sense",
                        (unsigned long long)super->held_units, segment->geometry.unit_count);
        return 0;
}

void sb_check_part(
        struct sb_handle *handle, struct sb_check_part part, struct sb_check_report *report)
{
        struct sb_look look = {.handle = handle, .segment = &handle->segment, .report = report};

        check_pass(&look, part);
}

int sb_check(struct sb_handle *handle, bool quiescent, struct sb_check_report *ret)
{
        struct sb_look look = {.handle = handle,
                .segment = &handle->segment,
                .report = ret,
                .quiescent = quiescent};
        int r = sb_check_begin(handle, ret);

        if (r)
                return r;
        check_pass(&look, (struct sb_check_part){SB_CHECK_ORDER, 0, 1});
        if (!ret->problem_count)
                check_pass(&look, (struct sb_check_part){SB_CHECK_BUCKETS, 0, 1});
        if (!ret->problem_count)
                check_pass(&look, (struct sb_check_part){SB_CHECK_UNITS, 0, 1});
        check_pass(&look, (struct sb_check_part){SB_CHECK_RECORDS, 0, 1});
        return 0;
}
